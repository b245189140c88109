"""The models and views at hand: what was opened stays for a while, and goes when nobody uses it or memory is wanted."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..i18n import Problem
from .frames import Fields
from .openable import OpenableFile
from .requests import ViewSpec
from .text_views import Send, TextView, Unmade, Wanted

MODELS, UNUSED = 2, 900.0  # models held at once, and seconds after which one that nobody uses is let go
VIEWS = 800_000_000  # bytes of q, k and v that are held
LENGTHY = 5000  # characters of a text beside whose view no other is held
CANCELLED = 50  # cancelled views that are remembered, each with its text
GIVES_WAY = 3  # how nice the making of such a view is: it has a third of a processor that somebody else wants too


class LoadedModels:
    """The models and views at hand."""

    def __init__(self, event: Callable[[Fields], None]) -> None:
        self.event = event
        self.models: OrderedDict[str, tuple[float, Any, Any]] = OrderedDict()
        self.views: OrderedDict[ViewSpec, TextView] = OrderedDict()
        self.cancelled: OrderedDict[ViewSpec, None] = OrderedDict()  # views that were cancelled while they were made

    def model(self, source: OpenableFile) -> tuple[Any, Any]:
        """Return the model of a file and its tokenizer."""
        key = f"{source.file} {source.changed}"
        if key not in self.models:
            # Weights are mapped, not read from front to back: how large they are is true, how far one is isn't known.
            self.event({"kind": "loading", "model": source.name, "size": size_of(Path(source.file))})
            try:
                while len(self.models) >= MODELS:
                    self._let_go(next(iter(self.models)))
                from ..formats.open_model import open_any

                self.models[key] = time.monotonic(), *open_any(Path(source.file))
            finally:
                self.event({"kind": "loaded", "model": source.name})
        _, model, tokenizer = self.models.pop(key)
        self.models[key] = time.monotonic(), model, tokenizer
        return model, tokenizer

    def cancel(self, spec: ViewSpec) -> None:
        """Remember that this view was cancelled while it was made: requests for parts of it must not make it again."""
        self.cancelled[spec] = None
        while len(self.cancelled) > CANCELLED:
            self.cancelled.popitem(last=False)

    def tidy(self) -> None:
        """Let go of models that nobody used for a while, and of their views."""
        for key, (used, _, _) in list(self.models.items()):
            if time.monotonic() - used > UNUSED:
                self._let_go(key)

    def _let_go(self, key: str) -> None:
        _, model, _ = self.models.pop(key)
        for name, view in list(self.views.items()):
            if view.model is model:
                del self.views[name]
        del model
        gc.collect()

    def view(self, spec: ViewSpec, send: Send, wanted: Wanted, may_run: bool) -> TextView:
        """The view of a spec, made if it isn't there: its header and layers are sent as they come."""
        known = self.views.get(spec)
        if known is not None and not known.failed:
            self.views.move_to_end(spec)
            return known
        if not may_run:
            raise Unmade
        view = TextView(spec) if spec.model.trace else TextView(spec, *self.model(spec.model))
        if not spec.model.trace and not spec.text and not spec.more:
            raise Problem("there is no text: type one")
        if len(spec.text) > LENGTHY:  # two long ones at once would be too many
            self.views.clear()
        self.views[spec] = view
        self.cancelled.pop(spec, None)
        try:
            if len(spec.text) > LENGTHY:
                giving_way(lambda: view.make(send, wanted))
            else:
                view.make(send, wanted)
        except BaseException:
            self.views.pop(spec, None)
            raise
        while len(self.views) > 1 and sum(each.bytes for each in self.views.values()) > VIEWS:
            self.views.popitem(last=False)
        return view


def size_of(path: Path) -> int:
    """The bytes of a model's weights: of the file, or of those in its folder."""
    files = [path] if path.is_file() else [*path.glob("*.safetensors"), *path.glob("*.gguf")]
    return sum(file.stat().st_size for file in files)


def giving_way(work: Callable[[], None]) -> None:
    """Do long work in a thread, and threads that it starts, to which others are preferred: whoever looks at a tile meanwhile
    waits less. (Only Linux has a priority for each thread; one that was given up can't be had back, so this one ends.)"""

    def give_way() -> None:
        if sys.platform == "linux":
            me = os.PRIO_PROCESS, threading.get_native_id()
            os.setpriority(*me, os.getpriority(*me) + GIVES_WAY)

    with ThreadPoolExecutor(1, initializer=give_way) as pool:
        pool.submit(work).result()
