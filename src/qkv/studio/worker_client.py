"""Client for the worker process: starts it, forwards requests and responses, and restarts it after a crash.

Responses are cached: the same request of another tab, or of the same one again, costs nothing. A tab's newest request of a kind
in NEWEST cancels its older one; so does a browser that no longer waits.
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
KEPT = ("view", "head", "tile", "links", "words", "loss", "lens", "heads", "changes", "translations", "importance")
KEEP, LARGEST = 192_000_000, 48_000_000  # bytes of all answers that are kept, and of one
DEATHS, WITHIN = 4, 60.0  # a worker that died so often within so many seconds is not started again
EVENTS = 200  # that a tab may be behind
# The worker's threads wait as cli.py's do, and have one heap: of several, each keeps what its threads let go of, so that a
# second long view took 2.5 GB where the first took 1.8.
ROOM = {"OMP_WAIT_POLICY": "PASSIVE", "MALLOC_ARENA_MAX": "1"}

# An absolute path (not that of a URL), of which the last part is kept; and the class of an error, as it stands before its words.
PATH = re.compile(
    r"""(?<![\w/.:])(?:~?/|[A-Za-z]:[\\/])(?:[^\s'"“”,;:()（），；：/\\]+[/\\])*([^\s'"“”,;:()（），；：/\\]+)"""
)
ERROR_CLASS = re.compile(r"\b(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b(?:: )?")

FIRST = Path(__file__).with_name("first.bin")
Answer = list[bytes]


class WorkerClient:
    """One worker, the requests that wait for it, and the tabs that listen."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.numbers = count(1)
        self.waiting: dict[int, asyncio.Queue[tuple[int, bytes]]] = {}
        self.newest: dict[tuple[str, str], tuple[int, int]] = {}  # its turn, and its number
        self.kept: OrderedDict[str, Answer] = OrderedDict(shipped())
        self.listeners: set[asyncio.Queue[Fields]] = set()
        self.state: Fields = {"kind": "worker", "state": "starting"}
        self.deaths: list[float] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.closed = False

    def start(self) -> None:
        """Start the worker; it says when it is ready."""
        if self.process is not None or self.closed:
            return
        open_missing_streams()  # the worker prints where stderr is
        # Its own process group, so that Ctrl-C reaches the web process alone, which then ends it in order.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "qkv.studio.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=os.name == "posix",
            env=ROOM | os.environ,
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
        """The whole response, where it was given before."""
        key = request.cache_key()
        if request.do not in KEPT or key not in self.kept:
            return None
        self.kept.move_to_end(key)
        return b"".join(self.kept[key])

    async def answer(self, request: Request, tab: str, turn: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the frames of a response as they come. A caller that stops reading cancels it.

        `turn` counts a tab's requests: one that comes by a new connection may be overtaken by a later one on its way here, and
        must not cancel that.
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
        answer: Answer | None = []
        try:
            await self._send(request.to_json() | {"ask": number})
            while True:
                last, content = await inbox.get()
                if answer is not None:
                    answer = [*answer, content] if sum(map(len, answer)) + len(content) <= LARGEST else None
                if last == LAST:
                    break
                yield content
            if do in KEPT and answer is not None and b'"kind":"done"' in content[:40]:
                self._keep(key, answer)
            yield content
        finally:
            if self.waiting.pop(number, None) is not None:
                self._cancel(number)
            if self.newest.get((tab, do)) == (turn, number):
                del self.newest[tab, do]

    def forget(self) -> None:
        """Answers of models that were removed or fetched anew aren't given again."""
        self.kept = OrderedDict(shipped())

    @contextmanager
    def listen(self) -> Iterator[asyncio.Queue[Fields]]:
        """What happens to the worker, from its state now on."""
        queue: asyncio.Queue[Fields] = asyncio.Queue(EVENTS)
        queue.put_nowait(self.state)
        self.listeners.add(queue)
        try:
            yield queue
        finally:
            self.listeners.discard(queue)

    def notify(self, event: Fields) -> None:
        """To every tab; one that doesn't listen any more misses it."""
        if event["kind"] == "worker":
            self.state = event
        for queue in self.listeners:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(event)

    async def _send(self, told: Fields) -> None:
        if len(self.deaths) >= DEATHS:
            raise self._gone()
        if self.process is None:
            self.start()
        assert self.process is not None and self.process.stdin is not None
        pipe = self.process.stdin

        def write() -> None:
            with suppress(OSError, ValueError):  # it died: `_read` tells
                pipe.write(write_request(told))
                pipe.flush()

        await asyncio.to_thread(write)

    def _gone(self) -> Problem:
        return Problem("the part that computes died {n} times within a minute: start qkv studio anew", n=DEATHS)

    def _cancel(self, number: int) -> None:
        self._task(self._send({"do": "cancel", "ask": 0, "which": number}))

    def _keep(self, key: str, answer: Answer) -> None:
        self.kept[key] = answer
        while sum(len(content) for kept in self.kept.values() for content in kept) > KEEP:
            self.kept.popitem(last=False)

    def _read(self, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """Hand on what the worker says until it dies. (A thread: pipes of processes can't be awaited everywhere.)"""
        pipe = process.stdout
        assert pipe is not None
        while len(head := pipe.read(ENVELOPE.size)) == ENVELOPE.size:
            number, last, size = ENVELOPE.unpack(head)
            content = pipe.read(size)
            if len(content) < size:
                break
            with suppress(RuntimeError):  # the loop is closed: everybody has gone
                loop.call_soon_threadsafe(self._hand, number, last, content)
        process.wait()
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._died, process)

    def _hand(self, number: int, last: int, content: bytes) -> None:
        if number == 0:
            self.notify(json.loads(content))
        elif inbox := self.waiting.get(number):
            if last == LAST:
                self.waiting.pop(number)
            inbox.put_nowait((last, content))

    def _died(self, process: subprocess.Popen[bytes]) -> None:
        """Say so to who waits, and start another."""
        self.process = None
        if self.closed:
            return
        now = time.monotonic()
        self.deaths = [*(then for then in self.deaths if now - then < WITHIN), now]
        lost = Message(
            "the part that computes stopped in the middle (was it killed, or is memory full?); it is started again: try "
            "once more"
        )
        for number in list(self.waiting):
            self.waiting.pop(number).put_nowait((LAST, problem(lost)))
        if len(self.deaths) < DEATHS:
            self.notify({"kind": "worker", "state": "restarted"})
            self.start()
        else:
            gone = {lang: say(self._gone(), lang) for lang in LANGUAGES}
            self.notify({"kind": "worker", "state": "gone", "say": gone})

    def _task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # looked at: a worker that can't be told has been told of already


def shipped() -> dict[str, Answer]:
    """The answers that the studio opens with come with it: the worker isn't there yet when they are asked for."""
    left, found = FIRST.read_bytes(), {}
    while left:
        pieces = []
        for _ in range(2):
            (size,) = LENGTH.unpack_from(left)
            pieces.append(left[LENGTH.size : LENGTH.size + size])
            left = left[LENGTH.size + size :]
        found[pieces[0].decode()] = [pieces[1]]
    return found


def ship(answers: dict[str, bytes]) -> bytes:
    """The file of such answers (tools/make_traces.py)."""
    pieces = (piece for key, answer in answers.items() for piece in (key.encode(), answer))
    return b"".join(LENGTH.pack(len(piece)) + piece for piece in pieces)


def problem(sentence: Message | Spoken) -> bytes:
    """The last frame of an ask that can't be answered: a sentence in every language.

    A browser is told names: paths and classes of errors go to the terminal.
    """
    whole = {lang: say(sentence, lang) for lang in LANGUAGES}
    shown = {lang: without_paths(text, paths_in(sentence)) for lang, text in whole.items()}
    if shown != whole:
        print(plain(say(sentence)), file=sys.stderr, flush=True)
    return frame({"kind": "problem", "say": shown})


def without_paths(text: str, known: Sequence[Path] = ()) -> str:
    """The text with only the last part of each absolute path, also of `known` ones with spaces, and without classes of errors.

    >>> without_paths("/home/me/runs/a/config.json is not a run (KeyError: 'model'); see https://x.org/a/b")
    "config.json is not a run ('model'); see https://x.org/a/b"
    >>> without_paths("there is no /home/me/my runs/a b", [Path("/home/me/my runs/a b")])
    'there is no a b'
    """
    for path in sorted(known, key=lambda path: -len(str(path))):
        if path.name and path.is_absolute():
            text = text.replace(str(path), path.name)
    return ERROR_CLASS.sub("", PATH.sub(r"\1", text))


def paths_in(sentence: object) -> list[Path]:
    """The paths that a sentence is filled in with, also those of sentences inside it."""
    if isinstance(sentence, Path):
        return [sentence]
    values = sentence.values.values() if isinstance(sentence, Message | Spoken) else ()
    return [path for value in values for path in paths_in(value)]
