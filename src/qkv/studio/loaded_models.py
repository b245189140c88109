"""Cache of models and views: entries are removed when unused for a while or when memory is short."""

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
from .text_views import IsActive, Send, TextView, Unmade

MODELS, UNUSED = 2, 900.0  # models in memory at once, and seconds after which an unused one is removed
VIEWS = 800_000_000  # bytes of q, k and v in memory
LENGTHY = 5000  # characters of a text whose view is cached alone
CANCELLED = 50  # cancelled views that are remembered, each with its text
NICENESS = 3  # priority of computing such a view: about a third of a contended processor


class LoadedModels:
    """The models and views in memory."""

    def __init__(self, event: Callable[[Fields], None]) -> None:
        self.event = event
        self.models: OrderedDict[str, tuple[float, Any, Any]] = OrderedDict()
        self.views: OrderedDict[ViewSpec, TextView] = OrderedDict()
        self.cancelled: OrderedDict[ViewSpec, None] = (
            OrderedDict()
        )  # views that were cancelled while they were computed

    def model(self, source: OpenableFile) -> tuple[Any, Any]:
        """Return the model of a file and its tokenizer."""
        key = f"{source.file} {source.changed}"
        if key not in self.models:
            # Weights are memory-mapped, so only their size can be shown, not progress.
            self.event({"kind": "loading", "model": source.name, "size": size_of(Path(source.file))})
            try:
                while len(self.models) >= MODELS:
                    self._remove(next(iter(self.models)))
                from ..formats.open_model import open_any

                self.models[key] = time.monotonic(), *open_any(Path(source.file))
            finally:
                self.event({"kind": "loaded", "model": source.name})
        _, model, tokenizer = self.models.pop(key)
        self.models[key] = time.monotonic(), model, tokenizer
        return model, tokenizer

    def cancel(self, spec: ViewSpec) -> None:
        """Remember that this view was cancelled, so that requests for its parts don't compute it again."""
        self.cancelled[spec] = None
        while len(self.cancelled) > CANCELLED:
            self.cancelled.popitem(last=False)

    def tidy(self) -> None:
        """Remove models that were unused for a while, with their views."""
        for key, (used, _, _) in list(self.models.items()):
            if time.monotonic() - used > UNUSED:
                self._remove(key)

    def _remove(self, key: str) -> None:
        _, model, _ = self.models.pop(key)
        for name, view in list(self.views.items()):
            if view.model is model:
                del self.views[name]
        del model
        gc.collect()

    def view(self, spec: ViewSpec, send: Send, is_active: IsActive, may_run: bool) -> TextView:
        """Return the view of a spec; if it isn't cached, compute it and send its header and layers as they arrive."""
        cached = self.views.get(spec)
        if cached is not None and not cached.failed:
            self.views.move_to_end(spec)
            return cached
        if not may_run:
            raise Unmade
        view = TextView(spec) if spec.model.trace else TextView(spec, *self.model(spec.model))
        if not spec.model.trace and not spec.text and not spec.more:
            raise Problem("there is no text: type one")
        if len(spec.text) > LENGTHY:  # two long views don't fit into memory
            self.views.clear()
        self.views[spec] = view
        self.cancelled.pop(spec, None)
        try:
            if len(spec.text) > LENGTHY:
                run_nicely(lambda: view.make(send, is_active))
            else:
                view.make(send, is_active)
        except BaseException:
            self.views.pop(spec, None)
            raise
        while len(self.views) > 1 and sum(each.bytes for each in self.views.values()) > VIEWS:
            self.views.popitem(last=False)
        return view


def size_of(path: Path) -> int:
    """Return the bytes of a model's weights: of the file, or of the files in its folder."""
    files = [path] if path.is_file() else [*path.glob("*.safetensors"), *path.glob("*.gguf")]
    return sum(file.stat().st_size for file in files)


def run_nicely(work: Callable[[], None]) -> None:
    """Run long work in a thread of lower priority, so that requests for tiles are served sooner.

    Only Linux has priorities per thread. A lowered priority can't be raised again, so the thread ends with the work.
    """

    def lower_priority() -> None:
        if sys.platform == "linux":
            me = os.PRIO_PROCESS, threading.get_native_id()
            os.setpriority(*me, os.getpriority(*me) + NICENESS)

    with ThreadPoolExecutor(1, initializer=lower_priority) as pool:
        pool.submit(work).result()
