"""Runs a user's code in a process of its own, with limits, and brings the doctor's reports back.

Whatever that code does (loops for ever, exits, crashes, fills the memory, prints without end), this process goes on and
gives a report that says so. The two sides talk over a pipe of their own, in lines of JSON that carry a secret number; a
candidate's report is sent as soon as it is there, and after a death the rest is done by a new process.
"""

import contextlib
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...words import Message, Problem, _
from ..report import Report
from ..source.file import Source, read
from .guard import WALL, computed, stopped

START = 600.0  # seconds for a busy machine to import torch
SECONDS = 120.0  # of processor time for each name: many times what a check takes
WAITS = 0.05  # of its time a process must have computed, or it is taken to wait
LONGEST = 16 << 20  # bytes of one answer
SILENT = 73  # the exit code of a process that could not answer
PHASES = {"check": _("running"), "load": _("loading"), "start": _("starting")}
DOCTOR = "qkv.doctor.doctor:check"


def examine(
    path: Path | str,
    name: str | list[str] | None = None,
    options: dict[str, Any] | None = None,
    *,
    seconds: float = SECONDS,
    gigabytes: float = 4,
    doctor: str = DOCTOR,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Report]:
    """A report per name, or per thing in the file that looks like attention.

    `seconds` of processor time are a guard for each after torch has been imported, no budget: what it stops could not be
    checked. `gigabytes` is what the process may take beside torch.
    """
    source = read(path)
    names = [name] if isinstance(name, str) else list(name) if name else source.candidates()
    if not names:
        raise Problem(
            "{file} holds nothing that looks like attention (a softmax beside a product of matrices); to check a "
            "class or function anyway, name it: qkv check {file}:NAME",
            file=path,
        )
    for one in names:
        source.node(one)
    reports: dict[str, Report] = {}
    while left := [one for one in names if one not in reports]:
        child = _Child(source, left, options or {}, seconds, gigabytes, doctor, progress)
        with child:
            reports |= child.reports()
    found = [reports[one] for one in names]
    about = [report for report in found if report.adapted.get("kind") != "no attention"]
    return about if about and not name else found  # who names a thing gets an answer about it


class _Child:
    """One process that checks names in turn, until it is done or dies."""

    def __init__(
        self,
        source: Source,
        names: list[str],
        options: dict[str, Any],
        seconds: float,
        gigabytes: float,
        doctor: str,
        progress: Callable[[str], None],
    ) -> None:
        self.source, self.names, self.seconds, self.gigabytes = source, names, seconds, gigabytes
        self.progress = progress
        self.nonce = secrets.token_hex(16)  # known to the doctor's side only
        self.mark = secrets.token_hex(8)  # carried by every process that comes of this one
        self.phase, self.now = "start", names[0]
        self.trace = ""
        request = {
            "path": str(source.path),
            "names": names,
            "options": options,
            "seconds": seconds,
            "gigabytes": gigabytes,
            "doctor": doctor,
            "nonce": self.nonce,
        }
        answers, child_answers = os.pipe()
        traces, child_traces = os.pipe()
        self.files = {answers: b"", traces: b""}
        self.answers, self.traces = answers, traces
        inherited = {} if os.name == "nt" else {"pass_fds": (child_answers, child_traces), "start_new_session": True}
        if os.name == "nt":  # no numbers of open files cross there; handles do
            for fd in (child_answers, child_traces):
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
                    "qkv.doctor.process.inside",
                    *_handles(child_answers, child_traces),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(self.mark),
                **inherited,  # type: ignore[call-overload]
            )
        except OSError as error:
            os.close(answers)
            os.close(traces)
            raise Problem("The process that runs your code could not start: {error}", error=str(error)) from None
        finally:
            os.close(child_answers)
            os.close(child_traces)
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it died at once: its exit code will tell
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process and everything it started."""
        self._kill()
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        for fd in self.files:
            os.close(fd)

    def reports(self) -> dict[str, Report]:
        """What it had to say; where it died, the one it died of gets a report that says so."""
        found: dict[str, Report] = {}
        deadline, had = time.monotonic() + START, 0.0
        while len(found) < len(self.names):
            message = self._next(deadline)
            if message is None:
                now = computed(self.process.pid) if self.process.poll() is None else had
                if now > had + WAITS * self.seconds:  # slow, as the machine is busy: its own limit will end it
                    deadline, had = time.monotonic() + self.seconds * WALL, now
                    continue
                end = self._ended(timeout=time.monotonic() >= deadline)
                # What did not even start would not for the others.
                failed = self.names if self.phase == "start" else [self.now]
                return found | {name: replace(end, target=f"{self.source.path}:{name}") for name in failed}
            if message["event"] == "phase":
                if message["phase"] == "load":
                    deadline, had = time.monotonic() + self.seconds * WALL, computed(self.process.pid)
                    self.progress(message["name"])
                self.phase, self.now = message["phase"], message["name"]
            elif message["event"] == "report" and message["name"] == self.now:
                found[self.now] = Report.from_dict(message["report"])
                left = [one for one in self.names if one not in found]
                self.now = left[0] if left else self.now
        return found

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
                if isinstance(message, dict) and message.get("nonce") == self.nonce:
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

    def _ended(self, timeout: bool) -> Report:
        """The report on what killed the process, or had to be killed."""
        code = self.process.poll()
        if timeout and code is None:
            self._ask_where()
        while self._read(0.05):
            pass
        self.trace = self.files[self.traces].decode("utf-8", "replace")
        at = self._at()
        phase = Message(PHASES[self.phase])
        died = -code if code is not None and code < 0 else None
        more = round(self.seconds * 3)
        if timeout and code is None:
            waited = START if self.phase == "start" else self.seconds * WALL
            problem = Message(
                "It did not finish within {seconds} s while it was {phase}, and was waiting for something.{at}\nIf it "
                "is only slow, make it smaller (--args) or give it longer: --seconds {more}.",
                seconds=f"{waited:g}",
                more=more,
                phase=phase,
                at=at,
            )
        elif stopped(code):
            problem = Message(
                "It did not finish within {seconds} s of computing while it was {phase}.{at}\nIf it is only slow, make "
                "it smaller (--args) or give it longer: --seconds {more}.",
                seconds=f"{self.seconds:g}",
                more=more,
                phase=phase,
                at=at,
            )
        elif died == getattr(signal, "SIGKILL", 9) or "MemoryError" in self.trace:
            problem = Message(
                "It took more than {gigabytes} GB of memory while it was {phase}.{at}\nMake it smaller: --args.",
                gigabytes=f"{self.gigabytes:g}",
                phase=phase,
                at=at,
            )
        elif died is not None:
            names = {s.value: s.name for s in signal.Signals}
            problem = Message(
                "It crashed the interpreter ({signal}) while it was {phase}.{at}",
                signal=names.get(died, died),
                phase=phase,
                at=at,
            )
        elif self.phase == "start":
            problem = Message(
                "The process that runs your code could not start: {error}",
                error=self.trace.strip().split("\n")[-1] or f"exit code {code}",
            )
        elif code in (None, SILENT):
            problem = Message("Its process ended without an answer while it was {phase}.", phase=phase)
        else:
            problem = Message(
                "It ended the program by itself (exit code {code}) while it was {phase}. Take sys.exit and os._exit "
                "out of what it runs.",
                code=code,
                phase=phase,
            )
        return Report(f"{self.source.path}:{self.now}", "unknown", problem=problem)

    def _ask_where(self) -> None:
        """Which line it hangs in, for the person to see."""
        if hasattr(signal, "SIGUSR1"):
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGUSR1)
            self._read(1.0)

    def _at(self) -> Message:
        """The innermost line of the user's file in the last trace."""
        inside = re.escape(str(self.source.path))
        found = re.search(rf'File "{inside}", line (\d+) in ', self.trace)
        if found is None:
            return Message("")
        line = int(found[1])
        return Message(
            "\nIt was at {place}:\n  {code}", place=place(self.source, line), code=self.source.line(line).strip()
        )

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


def _environment(mark: str) -> dict[str, str]:
    home = str(Path(__file__).resolve().parents[3])
    before = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([before, home] if before else [home]),
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


def place(source: Source, line: int) -> Message:
    """A line as `file:line`, or as cell and line of a notebook."""
    cell, within = source.place(line)
    if cell is None:
        return Message("{file}:{line}", file=source.path, line=line)
    return Message("{file} cell {cell}, line {line}", file=source.path, cell=cell, line=within)
