"""Entry point of the sandboxed process that runs user code; child.py starts it.

python -m qkv.sandbox.child_main ANSWERS TRACES LIFELINE     file descriptors of three pipes; the request comes on stdin
"""

import contextlib
import gc
import importlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from ..process.lifeline import end_with_caller
from .confine import confine

SILENT = 73  # the exit code of a process that could not answer
THREADS = 512  # that the user's code may start

Send = Callable[..., None]


def serve() -> None:
    """Reads one request from stdin, answers on the pipe."""
    answers, traces, lifeline = _open_handles(sys.argv[1:4])
    alive = os.dup(0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    request = json.loads(_line(alive))
    end_with_caller(lifeline)  # before the filter, which refuses F_SETOWN
    # Before any thread: Landlock does not reach threads that exist already.
    request["confined"] = request["kernel"] and confine(request["scratch"])
    _die_with_parent(alive)
    import faulthandler

    faulthandler.enable(traces)
    request["traces"] = traces
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, traces, all_threads=False)
    module, function = request["task"].split(":")
    gc.disable()  # for the imports: looking for garbage among what torch is made of takes 50 ms each time
    try:
        getattr(importlib.import_module(module), function)(request, _sender(answers, request.pop("nonce")))
    except BaseException as error:  # the answer could not be sent, or not even begun
        with contextlib.suppress(OSError):
            os.write(traces, f"\n{type(error).__name__}: {error}\n".encode())
        os._exit(SILENT)
    os._exit(0)  # threads that the user's code left running are not waited for


def _sender(answers: int, nonce: str) -> Send:
    """Sends an event and its values; bound before any line of the person's runs."""
    write, dumps = os.write, json.dumps

    def send(event: str, **values: object) -> None:
        data = b"\n" + dumps({"nonce": nonce, "event": event, **values}).encode() + b"\n"
        while data:
            data = data[write(answers, data) :]

    return send


def limit_resources(gigabytes: float) -> None:
    """Limit memory (beside what torch takes already), the size of files and the number of threads, where the system can.

    Called after the imports: from here on garbage is collected, and not looked for among what they made.
    """
    gc.freeze()
    gc.enable()
    try:
        import resource
    except ImportError:
        return
    size = data = 0
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text()
        size, data = (int(re.search(rf"{key}:\s+(\d+)", status)[1]) << 10 for key in ("VmSize", "VmData"))  # type: ignore[index]
    room = int(gigabytes * (1 << 30))
    if size:  # elsewhere a limit on addresses would stop torch itself
        _set(resource.RLIMIT_DATA, data + room)
        _set(resource.RLIMIT_AS, size + 2 * room)
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_FSIZE, 1 << 30)
    _limit_threads()


def _limit_threads() -> None:
    """Limit this user to THREADS more threads (Linux). The kernel exempts root."""
    import resource

    if not os.path.isdir("/proc/self/task"):
        return
    running = 0
    for process in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if process.name.isdigit() and process.stat().st_uid == os.getuid():
                running += os.stat(f"{process.path}/task").st_nlink - 2
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NPROC, (running + THREADS, before[1]))
        try:
            threading.Thread(target=int).start()
        except RuntimeError:  # in a container, which does not show all processes of this user
            resource.setrlimit(resource.RLIMIT_NPROC, before)
        else:
            _set(resource.RLIMIT_NPROC, running + THREADS)


def _set(what: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (most, most))


def _open_handles(given: list[str]) -> list[int]:
    if os.name != "nt":
        return [int(fd) for fd in given]
    import msvcrt

    return [msvcrt.open_osfhandle(int(handle), 0) for handle in given]  # type: ignore[attr-defined]


def _line(fd: int) -> bytes:
    """One line of a pipe that stays open."""
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(fd, 1 << 16)
        if not more:
            os._exit(71)
        data += more
    return data


def _die_with_parent(alive: int) -> None:
    """The pipe that brought the request closes when the parent ends, however it ends."""

    def watch(read: Callable[[int, int], bytes] = os.read, leave: Callable[[int], object] = os._exit) -> None:
        while read(alive, 1):
            pass
        leave(72)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()


if __name__ == "__main__":
    serve()
