"""A process of its own for a person's code: started, listened to, ended with everything it started.

Whatever that code does (loops for ever, exits, crashes, fills the memory, prints without end), this process goes on and
hears how the other one ended. The two sides talk over a pipe of their own, in lines of JSON that carry a secret number.
The other side is child_main.py; what it does there is a task, `module:function`.
"""

import contextlib
import json
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..i18n import Problem, _
from ..process.streams import open_missing_streams
from .guard import WALL, computed, stopped

START = 600.0  # seconds for a busy machine to import torch
WAITS = 0.05  # of its time a process must have computed, or it is taken to wait
LONGEST = 16 << 20  # bytes of one answer
CANNOT_START = _("The process that runs your code could not start: {error}")
KERNEL = (
    True  # restrict the process with what the kernel offers (confine.py); tests of the audit hook alone switch it off
)


@dataclass(frozen=True)
class End:
    """How a process ended that had not said everything."""

    code: int | None  # None: it was still there when its time on the wall was over
    trace: str  # where it was, as far as it could say

    @property
    def late(self) -> bool:
        """Whether its time was over: of computing, or of waiting."""
        return self.code is None or stopped(self.code)

    def line(self, file: str) -> int | None:
        """The innermost line of that file in the last trace, where faulthandler writes names in ASCII."""
        name = re.escape(file.encode("ascii", "backslashreplace").decode())
        found = re.search(rf'File "{name}", line (\d+) in ', self.trace)
        return int(found[1]) if found else None


class Child:
    """One process that does a task and sends what comes of it, until it is done or dies."""

    def __init__(self, task: str, request: dict[str, Any], seconds: float, gigabytes: float) -> None:
        """`seconds` of processor time are a guard from each "begins" on; `gigabytes` is what it may take beside its imports."""
        self.seconds = seconds
        self.nonce = secrets.token_hex(16)  # known to our side of the child only
        self.mark = secrets.token_hex(8)  # carried by every process that comes of this one
        open_missing_streams()  # else a pipe could become the child's stdin
        try:
            self.scratch = tempfile.mkdtemp(prefix="qkv-")  # the only folder that the child may write to
        except OSError as error:
            raise Problem(CANNOT_START, error=str(error)) from None
        limits = {"seconds": seconds, "gigabytes": gigabytes, "scratch": self.scratch, "kernel": KERNEL}
        request = {**request, **limits, "task": task, "nonce": self.nonce}
        answers, child_answers = os.pipe()
        traces, child_traces = os.pipe()
        child_lifeline, self.lifeline = os.pipe()
        children = (child_answers, child_traces, child_lifeline)
        self.files = {answers: b"", traces: b""}
        self.answers, self.traces = answers, traces
        inherited = {} if os.name == "nt" else {"pass_fds": children, "start_new_session": True}
        if os.name == "nt":  # no numbers of open files cross there; handles do
            for fd in children:
                os.set_inheritable(fd, True)
            inherited = {"close_fds": False, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}  # type: ignore[attr-defined]
        try:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-W",
                    "ignore",
                    "-m",
                    "qkv.sandbox.child_main",
                    *_handles(*children),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(self.mark, self.scratch),
                **inherited,  # type: ignore[call-overload]
            )
        except OSError as error:
            for fd in (answers, traces, self.lifeline):
                os.close(fd)
            shutil.rmtree(self.scratch, ignore_errors=True)
            raise Problem(CANNOT_START, error=str(error)) from None
        finally:
            for fd in children:
                os.close(fd)
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it died at once: its exit code will tell
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process and everything it started, and removes its scratch folder."""
        self._kill()
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        for fd in (*self.files, self.lifeline):
            os.close(fd)
        with contextlib.suppress(RecursionError):  # folders in folders, a thousand deep
            shutil.rmtree(self.scratch, ignore_errors=True)

    def messages(self) -> Iterator[dict[str, Any] | End]:
        """What it sends, in turn; last, unless nobody listens any more, how it ended.

        Its time begins anew with each message whose event is "begins".
        """
        deadline, had, most = time.monotonic() + START, 0.0, START
        while True:
            message = self._next(deadline)
            if message is None:
                now = computed(self.process.pid) if self.process.poll() is None else had
                # Slow, as the machine is busy: its own limit will end it, unless the code raised that limit.
                if had + WAITS * self.seconds < now < most:
                    deadline, had = time.monotonic() + self.seconds * WALL, now
                    continue
                yield self._ended()
                return
            if message["event"] == "begins":
                deadline, had = time.monotonic() + self.seconds * WALL, computed(self.process.pid)
                most = had + 2 * self.seconds
            yield message

    def _next(self, deadline: float) -> dict[str, Any] | None:
        """The next true message; None when the process has ended or its time is over."""
        while True:
            if (message := self._message()) is not None:
                return message
            if time.monotonic() >= deadline:
                return None
            ended = self.process.poll() is not None
            if not self._read(0 if ended else min(deadline - time.monotonic(), 0.2)) and ended:
                return self._message()

    def _message(self) -> dict[str, Any] | None:
        """A line that carries the number; what the user's code wrote there does not, and is dropped."""
        while b"\n" in self.files[self.answers]:
            line, self.files[self.answers] = self.files[self.answers].split(b"\n", 1)
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(line)
                is_ours = isinstance(message, dict) and message.get("nonce") == self.nonce
                if is_ours and isinstance(message.get("event"), str):
                    return message
        if len(self.files[self.answers]) > LONGEST:
            self.files[self.answers] = b""
        return None

    def _read(self, wait: float) -> bool:
        """Whether anything came within that time."""
        ready = _readable(list(self.files), max(wait, 0))
        came = False
        for fd in ready:
            data = os.read(fd, 1 << 16)
            came = came or bool(data)
            self.files[fd] += data
        if ready and not came:
            time.sleep(0.01)  # both ends are closed, the process is about to end
        if len(self.files[self.traces]) > LONGEST:
            self.files[self.traces] = self.files[self.traces][-LONGEST // 2 :]
        return came

    def _ended(self) -> End:
        code = self.process.poll()
        if code is None and hasattr(signal, "SIGUSR1"):  # which line does it hang in?
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGUSR1)
            self._read(1.0)
        while self._read(0.05):
            pass
        return End(code, self.files[self.traces].decode("utf-8", "replace"))

    def _kill(self) -> None:
        if os.name == "nt":
            self.process.kill()
        else:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            for pid in _bearing(self.mark):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _bearing(mark: str) -> Iterator[int]:
    """Processes that left the group but still carry our mark in their environment (Linux)."""
    for folder in Path("/proc").glob("[0-9]*") if Path("/proc/self/environ").exists() else ():
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and mark.encode() in (folder / "environ").read_bytes():
                yield int(folder.name)


def _environment(mark: str, scratch: str) -> dict[str, str]:
    package = str(Path(__file__).resolve().parents[2])
    before = os.environ.get("PYTHONPATH")
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    kept = {"HF_HOME": "huggingface", "TORCH_HOME": "torch"}  # caches to read from
    if sys.platform == "linux":
        kept["QKV_HOME"] = "qkv"
    scratches = ("TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
    return {
        **{name: os.path.join(caches, folder) for name, folder in kept.items()},
        **os.environ,
        **dict.fromkeys(scratches, scratch),
        "PYTHONPATH": os.pathsep.join([before, package] if before else [package]),
        "PYTHONSAFEPATH": "1",  # a file json.py where the person stands must not become ours
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "QKV_CHECK_PROCESS": mark,
        # One thread: the matrices are small, and threads that wait for each other on a busy machine take minutes.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TORCHDYNAMO_DISABLE": "1",  # @torch.compile compiles for longer than a check takes
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "MPLBACKEND": "Agg",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _handles(*fds: int) -> list[str]:
    if os.name != "nt":
        return [str(fd) for fd in fds]
    import msvcrt

    return [str(msvcrt.get_osfhandle(fd)) for fd in fds]  # type: ignore[attr-defined]


def _readable(fds: list[int], wait: float) -> list[int]:
    if os.name != "nt":
        return select.select(fds, [], [], wait)[0]
    import _winapi
    import msvcrt

    until = time.monotonic() + wait
    while True:  # Windows cannot wait for pipes: look at them every few milliseconds
        ready = []
        for fd in fds:
            with contextlib.suppress(OSError):
                if _winapi.PeekNamedPipe(msvcrt.get_osfhandle(fd), 0)[0]:  # type: ignore[attr-defined]
                    ready.append(fd)
        if ready or time.monotonic() >= until:
            return ready
        time.sleep(0.01)
