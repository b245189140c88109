"""Progress bars on terminals, for work that takes more than a second."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..i18n import say
from . import text_grid
from .screen import live

if TYPE_CHECKING:
    from torch import nn

FIRST_DELAY, INTERVAL = 1.0, 0.2  # seconds before the first drawing and between drawings


@contextmanager
def bar(what: str, show: bool = True, in_bytes: bool = False) -> Iterator[Callable[[float, float], None]]:
    """Show a progress line on stderr and yield `progress(done, total)`, which may be called any number of times.

    A thread draws the line, so work without updates (loading torch, waiting for a server) shows the elapsed time. With
    `in_bytes`, done and total are bytes, shown as MB.
    """
    line, ended = _Line(what, in_bytes), threading.Event()

    def draw() -> None:
        ended.wait(FIRST_DELAY)
        while not ended.is_set():
            room = shutil.get_terminal_size((80, 24)).columns - 1  # a wrapped line can't be erased
            live(text_grid.clip(str(line), room), sys.stderr, fleeting=True)
            ended.wait(INTERVAL)

    thread = threading.Thread(target=draw, daemon=True) if show and sys.stderr.isatty() else None
    if thread:
        thread.start()
    try:
        yield line
    finally:
        ended.set()
        if thread:
            thread.join()
            live("", sys.stderr)


class _Line:
    """The text of a progress line."""

    def __init__(self, what: str, in_bytes: bool = False) -> None:
        self.what, self.in_bytes, self.done, self.total, self.started = what, in_bytes, 0.0, 0.0, time.monotonic()

    def __call__(self, done: float, total: float) -> None:
        self.done, self.total = done, total

    def __str__(self) -> str:
        elapsed = time.monotonic() - self.started
        share = min(self.done / self.total, 1.0) if self.total else 0.0
        if not share:
            return f"{self.what} … {clock(elapsed)}"
        remaining = say("{left} left", left=clock(elapsed * (1 - share) / share))
        size = f" {self.done / 1e6:.0f}/{self.total / 1e6:.0f} MB" if self.in_bytes else ""
        return f"{self.what} {'━' * int(30 * share):┈<30} {share:4.0%}{size} {remaining}"


def clock(seconds: float) -> str:
    """Format a duration as m:ss or h:mm:ss.

    >>> clock(7.6), clock(75), clock(8000)
    ('0:07', '1:15', '2:13:20')
    """
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


@contextmanager
def forward_progress(model: "nn.Module", progress: Callable[[int, int], None]) -> Iterator[None]:
    """Report the progress of a forward pass through any model, by the linear layers that have run.

    It starts again with each chunk of a long text and each token of a decoder.
    """
    from torch.nn import Linear

    layers = [module for module in model.modules() if isinstance(module, Linear)]
    done = 0

    def count_layer(*_: object) -> None:
        nonlocal done
        done += 1
        progress((done - 1) % len(layers) + 1, len(layers))

    hooks = [module.register_forward_hook(count_layer) for module in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
