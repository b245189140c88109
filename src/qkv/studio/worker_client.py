"""Client for the worker process: starts it, forwards requests and responses, and restarts it after a crash.

Responses are cached for all tabs. A tab's newest request of a kind in NEWEST cancels its older one; so does a browser that
disconnects.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from ..i18n import LANGUAGES, Message, Problem, Spoken, say
from ..process.streams import open_missing_streams
from ..terminal.screen import plain
from .frames import ENVELOPE, LAST, LENGTH, Fields, frame, write_request
from .requests import Request

NEWEST = ("view", "importance", "heads", "changes", "translations", "lens")
CACHEABLE = ("view", "head", "tile", "links", "words", "loss", "lens", "heads", "changes", "translations", "importance")
CACHE_BYTES, LARGEST_RESPONSE = 192_000_000, 48_000_000  # bytes of all cached responses, and of the largest one
MOST_CRASHES, CRASH_PERIOD = 4, 60.0  # after so many crashes within so many seconds the worker isn't restarted
EVENTS = 200  # events that a tab may lag behind
# Passive waiting as in cli.py. One heap: of several, each keeps memory that its threads freed (a second long view took 2.5 GB
# where the first took 1.8).
WORKER_ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "MALLOC_ARENA_MAX": "1"}

# An absolute path (not of a URL), whose last part is kept; and the class name before an error message.
PATH = re.compile(
    r"""(?<![\w/.:])(?:~?/|[A-Za-z]:[\\/])(?:[^\s'"“”,;:()（），；：/\\]+[/\\])*([^\s'"“”,;:()（），；：/\\]+)"""
)
ERROR_CLASS = re.compile(r"\b(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b(?:: )?")

FIRST = Path(__file__).with_name("first.bin")
Response = list[bytes]


class WorkerClient:
    """The worker process, the pending requests and the listening tabs."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.numbers = count(1)
        self.waiting: dict[int, asyncio.Queue[tuple[int, bytes]]] = {}
        self.newest: dict[tuple[str, str], tuple[int, int]] = {}  # (turn, number) of the newest request by tab and kind
        self.responses: OrderedDict[str, Response] = OrderedDict(shipped_responses())
        self.listeners: set[asyncio.Queue[Fields]] = set()
        self.state: Fields = {"kind": "worker", "state": "starting"}
        self.crashes: list[float] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.closed = False

    def start(self) -> None:
        """Start the worker; it sends an event when it is ready."""
        if self.process is not None or self.closed:
            return
        open_missing_streams()  # the worker prints where stderr is
        # A session of its own: Ctrl-C reaches only the web process, which then ends the worker.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "qkv.studio.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=os.name == "posix",
            env=WORKER_ENVIRONMENT | os.environ,
        )
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(self.process, loop), daemon=True).start()

    def close(self) -> None:
        """End the worker."""
        self.closed = True
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def cached(self, request: Request) -> bytes | None:
        """Return the cached response, or None."""
        key = request.cache_key()
        if request.do not in CACHEABLE or key not in self.responses:
            return None
        self.responses.move_to_end(key)
        return b"".join(self.responses[key])

    async def answer(self, request: Request, tab: str, turn: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the frames of a response as they come. A caller that stops reading cancels it.

        `turn` counts a tab's requests. A request by a new connection can arrive after a later one, and must not cancel that.
        """
        do, key = request.do, request.cache_key()
        number = next(self.numbers)
        turn = number if turn is None else turn
        if do in NEWEST and (other := self.newest.get((tab, do))) is not None:
            later, which = other
            if turn < later:
                yield frame({"kind": "superseded"})
                return
            if which in self.waiting:
                self._cancel(which)
                self.waiting.pop(which).put_nowait((LAST, frame({"kind": "superseded"})))
        inbox: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self.waiting[number] = inbox
        self.newest[tab, do] = turn, number
        answer: Response | None = []
        try:
            await self._send(request.to_json() | {"ask": number})
            while True:
                last, content = await inbox.get()
                if answer is not None:
                    answer = [*answer, content] if sum(map(len, answer)) + len(content) <= LARGEST_RESPONSE else None
                if last == LAST:
                    break
                yield content
            if do in CACHEABLE and answer is not None and b'"kind":"done"' in content[:40]:
                self._cache(key, answer)
            yield content
        finally:
            if self.waiting.pop(number, None) is not None:
                self._cancel(number)
            if self.newest.get((tab, do)) == (turn, number):
                del self.newest[tab, do]

    def forget(self) -> None:
        """Clear the cache, after models were removed or fetched again."""
        self.responses = OrderedDict(shipped_responses())

    @contextmanager
    def listen(self) -> Iterator[asyncio.Queue[Fields]]:
        """Yield a queue of events, beginning with the current state."""
        queue: asyncio.Queue[Fields] = asyncio.Queue(EVENTS)
        queue.put_nowait(self.state)
        self.listeners.add(queue)
        try:
            yield queue
        finally:
            self.listeners.discard(queue)

    def notify(self, event: Fields) -> None:
        """Send an event to every tab; a tab whose queue is full misses it."""
        if event["kind"] == "worker":
            self.state = event
        for queue in self.listeners:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(event)

    async def _send(self, message: Fields) -> None:
        if len(self.crashes) >= MOST_CRASHES:
            raise self._too_many_crashes()
        if self.process is None:
            self.start()
        assert self.process is not None and self.process.stdin is not None
        pipe = self.process.stdin

        def write() -> None:
            with suppress(OSError, ValueError):  # it crashed: `_read` handles that
                pipe.write(write_request(message))
                pipe.flush()

        await asyncio.to_thread(write)

    def _too_many_crashes(self) -> Problem:
        return Problem("the part that computes died {n} times within a minute: start qkv studio anew", n=MOST_CRASHES)

    def _cancel(self, number: int) -> None:
        self._task(self._send({"do": "cancel", "ask": 0, "which": number}))

    def _cache(self, key: str, response: Response) -> None:
        self.responses[key] = response
        while sum(len(content) for parts in self.responses.values() for content in parts) > CACHE_BYTES:
            self.responses.popitem(last=False)

    def _read(self, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """Deliver the worker's output until it ends, in a thread, since pipes can't be awaited on every system."""
        pipe = process.stdout
        assert pipe is not None
        while len(head := pipe.read(ENVELOPE.size)) == ENVELOPE.size:
            number, last, size = ENVELOPE.unpack(head)
            content = pipe.read(size)
            if len(content) < size:
                break
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._deliver, number, last, content)
        process.wait()
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._on_exit, process)

    def _deliver(self, number: int, last: int, content: bytes) -> None:
        if number == 0:
            self.notify(json.loads(content))
        elif inbox := self.waiting.get(number):
            if last == LAST:
                self.waiting.pop(number)
            inbox.put_nowait((last, content))

    def _on_exit(self, process: subprocess.Popen[bytes]) -> None:
        """Fail the pending requests and restart the worker."""
        self.process = None
        if self.closed:
            return
        now = time.monotonic()
        self.crashes = [*(then for then in self.crashes if now - then < CRASH_PERIOD), now]
        interrupted = Message(
            "the part that computes stopped in the middle (was it killed, or is memory full?); it is started again: try "
            "once more"
        )
        for number in list(self.waiting):
            self.waiting.pop(number).put_nowait((LAST, problem(interrupted)))
        if len(self.crashes) < MOST_CRASHES:
            self.notify({"kind": "worker", "state": "restarted"})
            self.start()
        else:
            sentences = {lang: say(self._too_many_crashes(), lang) for lang in LANGUAGES}
            self.notify({"kind": "worker", "state": "gone", "say": sentences})

    def _task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._on_task_end)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved; `_read` has reported a crashed worker


def shipped_responses() -> dict[str, Response]:
    """Return the responses of the first screen, which are shipped, so that it appears before the worker is ready."""
    rest, responses = FIRST.read_bytes(), {}
    while rest:
        pieces = []
        for _ in range(2):
            (size,) = LENGTH.unpack_from(rest)
            pieces.append(rest[LENGTH.size : LENGTH.size + size])
            rest = rest[LENGTH.size + size :]
        responses[pieces[0].decode()] = [pieces[1]]
    return responses


def pack_responses(answers: dict[str, bytes]) -> bytes:
    """Return the content of first.bin, for tools/make_traces.py."""
    pieces = (piece for key, answer in answers.items() for piece in (key.encode(), answer))
    return b"".join(LENGTH.pack(len(piece)) + piece for piece in pieces)


def problem(sentence: Message | Spoken) -> bytes:
    """Return the last frame of a failed request: a sentence in every language.

    Paths and error classes are removed for the browser; the full sentence goes to the terminal.
    """
    full = {lang: say(sentence, lang) for lang in LANGUAGES}
    public = {lang: without_paths(text, paths_in(sentence)) for lang, text in full.items()}
    if public != full:
        print(plain(say(sentence)), file=sys.stderr, flush=True)
    return frame({"kind": "problem", "say": public})


def without_paths(text: str, paths: Sequence[Path] = ()) -> str:
    """Return the text without error classes and with only the last part of each absolute path, also of `paths` with spaces.

    >>> without_paths("/home/me/runs/a/config.json is not a run (KeyError: 'model'); see https://x.org/a/b")
    "config.json is not a run ('model'); see https://x.org/a/b"
    >>> without_paths("there is no /home/me/my runs/a b", [Path("/home/me/my runs/a b")])
    'there is no a b'
    """
    for path in sorted(paths, key=lambda path: -len(str(path))):
        if path.name and path.is_absolute():
            text = text.replace(str(path), path.name)
    return ERROR_CLASS.sub("", PATH.sub(r"\1", text))


def paths_in(sentence: object) -> list[Path]:
    """Return the paths among the values of a sentence, also of sentences inside it."""
    if isinstance(sentence, Path):
        return [sentence]
    values = sentence.values.values() if isinstance(sentence, Message | Spoken) else ()
    return [path for value in values for path in paths_in(value)]
