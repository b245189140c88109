"""The worker: the process that loads torch and holds models. It reads requests from stdin and writes frames to stdout.

It has two lanes. Requests that run a model are served one after another in the first; requests for parts of a view (one head, a
tile, the next words) are served in the second at the same time, so they never wait for long. A cancelled request is skipped, or
stops between two layers.
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
IDLE = 30.0  # seconds between removals of unused models


class Cancelled(Exception):
    """The request was cancelled."""


class Worker:
    """Reads requests, sorts them into lanes and responds."""

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self.source, self.sink = source, sink
        self.writing = threading.Lock()
        self.lanes: dict[bool, queue.Queue[tuple[int, Request]]] = {False: queue.Queue(), True: queue.Queue()}
        self.cancelled: set[int] = set()
        self.pending: set[int] = set()
        self.models: LoadedModels

    def run(self) -> None:
        """Serve requests until the web process ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        self.event({"kind": "worker", "state": "starting"})
        from .loaded_models import LoadedModels  # torch

        self.models = LoadedModels(self.event)
        self.event({"kind": "worker", "state": "ready"})
        threading.Thread(target=self._lane, args=(True,), daemon=True).start()
        self._lane(False)

    def event(self, fields: Fields) -> None:
        """Send an event to every tab."""
        import json

        self._write(0, MORE, json.dumps(fields, ensure_ascii=False).encode())

    def _write(self, number: int, last: int, content: bytes) -> None:
        with self.writing:
            try:
                write_envelope(self.sink, number, last, content)
            except OSError:  # the web process ended: end too
                os._exit(0)

    def _listen(self) -> None:
        while (message := read_request(self.source)) is not None:
            if message["do"] == "cancel":
                if message["which"] in self.pending:
                    self.cancelled.add(message["which"])
                continue
            self.pending.add(message["ask"])
            self.lanes[message["do"] in LIGHT].put((message["ask"], restore(message)))
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

        def is_active() -> bool:
            return number not in self.cancelled

        frames: list[bytes] = []

        def send(fields: Fields, *arrays: np.ndarray, hold: bool = False) -> None:
            """Send a frame; with `hold` it may be sent with the next one, since many small writes take longer."""
            if not is_active():
                raise Cancelled
            frames.append(frame(fields, *arrays))
            if not hold:
                self._write(number, MORE, b"".join(frames))
                frames.clear()

        try:
            # Parts of a cancelled view must not run the model again; only a new request for the view does.
            if request.do in LIGHT and isinstance(request, SpecRequest) and request.spec in self.models.cancelled:
                raise Cancelled
            if is_active():
                HANDLERS[request.do](Job(self.models, send, is_active, not light), request)
            last = frame({"kind": "done"})
        except Unmade:  # its view was removed: compute it again, in the lane where models run
            self.lanes[False].put((number, request))
            return
        except (Cancelled, StreamStopped):
            last = frame({"kind": "superseded"})
        except Exception as error:
            last = problem_frame(error)
        self.pending.discard(number)
        self.cancelled.discard(number)
        self._write(number, LAST, last)


def problem_frame(error: Exception) -> bytes:
    """Return the frame of an error: a sentence for the browser; the traceback of a bug goes to the terminal."""
    from ..i18n import Message, Problem
    from ..process import memory
    from .worker_client import problem

    if isinstance(error, Problem):
        return problem(error)
    if (full := memory.explain(error)) is not None:
        return problem(full)
    traceback.print_exception(error)
    return problem(
        Message("this is a bug in qkv, not a mistake of yours. Please report it, with the output in the terminal")
    )


def main() -> None:
    """Run the worker: frames go to the original stdout; what libraries print goes to stderr."""
    warnings.filterwarnings("ignore")  # the page shows these itself
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Worker(sys.stdin.buffer, sink).run()


if __name__ == "__main__":
    main()
