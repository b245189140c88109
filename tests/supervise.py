"""Run a command and end every process that it leaves behind, with how long it took.

    python tests/supervise.py python -m pytest …

The exit code is the command's own, or 1 if it succeeded but left processes running; these are named and killed. On Linux
orphans become children of this process, whatever session or environment they gave themselves, so none is missed.
Elsewhere the command is only run.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SET_CHILD_SUBREAPER, SET_PDEATHSIG = 36, 1  # of Linux's prctl
GRACE = 10.0  # seconds in which processes that are about to end may do so


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below this one that are running, parents first."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if (status := _status(int(folder.name))) is not None:
            children.setdefault(status[1], []).append(int(folder.name))
    below = children.get(pid, [])
    while below:
        yield from below
        below = [child for parent in below for child in children.get(parent, [])]


def is_running(pid: int) -> bool:
    """True unless this process has ended, even if its parent has not asked for its exit code yet."""
    return _status(pid) is not None


def _status(pid: int) -> tuple[str, int] | None:
    """State and parent of a process, None if it has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else (state, int(parent))


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let the system send this process a signal when its parent ends, however that ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, number)


def kill(pids: list[int]) -> None:
    """Kill these processes; those that have ended already are fine."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _command_line(pid: int) -> str:
    try:
        return " ".join(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0"))[:200]
    except OSError:
        return "?"


def _wait(pid: int) -> int:
    """Wait for a child and return its exit code, reaping orphans meanwhile as init would."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def _leftovers(grace: float) -> list[int]:
    """What still runs below this process after a time of grace."""
    deadline = time.monotonic() + grace
    while (pids := list(descendants(os.getpid()))) and time.monotonic() < deadline:
        time.sleep(0.1)
    _reap()
    return pids


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main(command: list[str]) -> int:
    """Run the command; see above."""
    if sys.platform != "linux":
        return subprocess.call(command)
    import resource

    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)
    start = time.monotonic()
    process = subprocess.Popen(command, preexec_fn=end_with_parent)
    stopped = []

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    end_with_parent(signal.SIGTERM)
    # Ctrl-C reaches the command from the terminal. A handler, not SIG_IGN, which the command would have inherited.
    signal.signal(signal.SIGINT, lambda *_: None)
    code = _wait(process.pid)
    leftovers = _leftovers(0.0 if stopped else GRACE)
    names = [f"  {pid} {_command_line(pid)}" for pid in leftovers]
    kill(leftovers)
    _leftovers(GRACE)  # so that their time counts too
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    print(f"{minutes}:{seconds:02d} by the clock, {used.ru_utime + used.ru_stime:.0f} CPU seconds", flush=True)
    if leftovers:
        print("left running and killed now:", *names, sep="\n", flush=True)
    return code if code > 0 else 128 - code if code < 0 else int(bool(leftovers))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
