"""The worker: the one process that loads torch and holds models. It reads asks from its input and answers with frames.

Two lanes. What runs a model goes one after the other in the first; what only looks at a view that is there, or is being
made (one head, a tile of a map, the next words), goes through the second beside it, so that looking never waits for long.
An ask that was called off is left out, or stops between two layers.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
import warnings
from typing import IO, TYPE_CHECKING

from .frames import LAST, MORE, Fields, frame, read_request, write_envelope
from .requests import Request, SpecRequest, restore

if TYPE_CHECKING:
    import numpy as np

    from .loaded_models import LoadedModels

LIGHT = ("head", "tile", "links", "words", "python")
IDLE = 30.0  # seconds between two looks at what nobody uses any more


class Gone(Exception):
    """Nobody waits for this answer."""


class Worker:
    """Reads, sorts into lanes, answers."""

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self.source, self.sink = source, sink
        self.writing = threading.Lock()
        self.lanes: dict[bool, queue.Queue[tuple[int, Request]]] = {False: queue.Queue(), True: queue.Queue()}
        self.cancelled: set[int] = set()
        self.pending: set[int] = set()
        self.models: LoadedModels

    def run(self) -> None:
        """Until the web process is gone."""
        threading.Thread(target=self._listen, daemon=True).start()
        self.event({"kind": "worker", "state": "starting"})
        from .loaded_models import LoadedModels  # torch

        self.models = LoadedModels(self.event)
        self.event({"kind": "worker", "state": "ready"})
        threading.Thread(target=self._lane, args=(True,), daemon=True).start()
        self._lane(False)

    def event(self, told: Fields) -> None:
        """For every tab."""
        import json

        self._write(0, MORE, json.dumps(told, ensure_ascii=False).encode())

    def _write(self, number: int, last: int, content: bytes) -> None:
        with self.writing:
            try:
                write_envelope(self.sink, number, last, content)
            except OSError:  # the web process died: so does its worker
                os._exit(0)

    def _listen(self) -> None:
        while (told := read_request(self.source)) is not None:
            if told["do"] == "cancel":
                if told["which"] in self.pending:
                    self.cancelled.add(told["which"])
                continue
            self.pending.add(told["ask"])
            self.lanes[told["do"] in LIGHT].put((told["ask"], restore(told)))
        os._exit(0)

    def _lane(self, light: bool) -> None:
        while True:
            try:
                number, request = self.lanes[light].get(timeout=IDLE)
            except queue.Empty:
                if not light:
                    self.models.tidy()
                continue
            self._answer(number, request, light)

    def _answer(self, number: int, request: Request, light: bool) -> None:
        from ..tracing.record.streaming import StreamStopped
        from .handlers import HANDLERS, Job
        from .text_views import Unmade

        def wanted() -> bool:
            return number not in self.cancelled

        held: list[bytes] = []

        def send(told: Fields, *arrays: np.ndarray, hold: bool = False) -> None:
            """`hold`: it may go with the next one; many small frames each on their own take longer than all together."""
            if not wanted():
                raise Gone
            held.append(frame(told, *arrays))
            if not hold:
                self._write(number, MORE, b"".join(held))
                held.clear()

        try:
            # A part of a view that was cancelled must not run the model again; only a new request for the view does.
            if request.do in LIGHT and isinstance(request, SpecRequest) and request.spec in self.models.cancelled:
                raise Gone
            if wanted():
                HANDLERS[request.do](Job(self.models, send, wanted, not light), request)
            last = frame({"kind": "done"})
        except Unmade:  # the view it looks at was let go of: make it again, in the lane where models run
            self.lanes[False].put((number, request))
            return
        except (Gone, StreamStopped):
            last = frame({"kind": "superseded"})
        except Exception as error:
            last = told_of(error)
        self.pending.discard(number)
        self.cancelled.discard(number)
        self._write(number, LAST, last)


def told_of(error: Exception) -> bytes:
    """What went wrong, in a sentence; the traceback of a bug is for the terminal."""
    from ..i18n import Message, Problem
    from ..process import memory
    from .worker_client import problem

    if isinstance(error, Problem):
        return problem(error)
    if (full := memory.explain(error)) is not None:
        return problem(full)
    traceback.print_exception(error)
    return problem(
        Message("this is a bug of qkv, not a mistake of yours. Please report it, with what the terminal shows of it")
    )


def main() -> None:
    """Frames go out where the web process reads them; whatever libraries print goes to the terminal."""
    warnings.filterwarnings("ignore")  # what they say of a text, the page says itself
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Worker(sys.stdin.buffer, sink).run()


if __name__ == "__main__":
    main()
