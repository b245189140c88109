"""A progress bar for anything that takes more than two seconds, on terminals only."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..screen import live


@contextmanager
def bar(what: str, show: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Gives `progress(done, total)` to call as often as one likes; the bar appears after half a second."""
    begun, seen = time.monotonic(), show and sys.stderr.isatty()
    last = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if not seen or now - begun < 0.5 or now - last < 0.1:
            return
        last = now
        share = min(done / total, 1.0) if total else 0.0
        left = (now - begun) * (1 - share) / share if share else 0.0
        live(f"{what} {'━' * int(30 * share):┈<30} {share:4.0%} {left:.0f} s", sys.stderr)

    try:
        yield progress
    finally:
        if last:
            live("", sys.stderr)


@contextmanager
def passing(model: Any, progress: Callable[[int, int], None]) -> Iterator[None]:
    """Tells how far a text has come through a model, whichever make it is: by its products with weights.

    A long text goes through in pieces, and an encoder-decoder says one token after the other; then it begins anew.
    """
    from torch.nn import Linear

    products = [module for module in model.modules() if isinstance(module, Linear)]
    done = 0

    def tick(*_: Any) -> None:
        nonlocal done
        done += 1
        progress((done - 1) % len(products) + 1, len(products))

    hooks = [module.register_forward_hook(tick) for module in products]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
