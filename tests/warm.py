"""Python processes that begin with torch loaded: forks of one process that loaded it and did nothing else.

Loading torch takes more than a second of the processor, which is more than most tests ask of a process. A fork has a pid,
a session, limits, pipes, signals and an exit code of its own, like any other. What it can't show is how Python gets there
(its options, what is imported and when): tests of that, and one test of every kind, start a process as people do.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a file
    sys.path.append(str(Path(__file__).parents[1]))

from tests.supervise import end_with_parent

LOADED = ("torch", "qkv.cli", "qkv.doctor.doctor", "qkv.lessons.grade")
ABOVE = 200  # open files wait with numbers above this, until each gets the number that it is known by
MESSAGE = 1 << 20  # bytes of the longest request

Started = subprocess.Popen  # as it is before a test puts ours in its place


class Popen(Started):
    """subprocess.Popen; but where the command is this Python, it isn't started, it is forked."""

    news: socket.socket | None = None  # brings the pid, and in the end how it ended

    def _execute_child(self, args: Any, *rest: Any) -> None:
        arguments = inspect.signature(Started._execute_child).bind(self, args, *rest).arguments
        program = parsed(args)
        if program is None or arguments["shell"] or arguments["preexec_fn"]:
            super()._execute_child(args, *rest)
            return
        request = program | {
            "numbers": [0, 1, 2, *arguments["pass_fds"]],
            "folder": os.fspath(arguments["cwd"] or os.getcwd()),
            "environment": dict(os.environ if arguments["env"] is None else arguments["env"]),
            "session": arguments["start_new_session"],
        }
        pipe_ends = [arguments[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        files = [own if at < 0 else at for own, at in enumerate(pipe_ends)] + list(arguments["pass_fds"])
        self.news, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                socket.send_fds(door(), [json.dumps(request).encode()], [theirs.fileno(), *files])
            self.pid, self._child_created = int(self.news.recv(64)), True
        finally:
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(arguments[name] for name in pipes))

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self.news is None:
            return super()._try_wait(flags)
        try:
            status = int(self.news.recv(64, socket.MSG_DONTWAIT if flags & os.WNOHANG else 0))
        except BlockingIOError:
            return 0, 0
        self.news.close()
        return self.pid, status

    def _internal_poll(self, *args: Any, **more: Any) -> int | None:
        if self.news is None:
            return super()._internal_poll(*args, **more)
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def parsed(command: Any) -> dict[str, Any] | None:
    """What Python is asked to run, or None where a fork would not be the same."""
    words = [os.fspath(word) for word in command] if isinstance(command, list | tuple) else []
    if not words or words.pop(0) != sys.executable:
        return None
    plan: dict[str, Any] = {"safe": False, "silent": False}
    while words:
        match words:
            case ["-P", *words]:
                plan["safe"] = True
            case ["-W", "ignore", *words]:
                plan["silent"] = True
            case ["-m" | "-c" as kind, program, *words]:
                return plan | {"kind": kind, "program": program, "arguments": words}
            case [option, *_] if option.startswith("-"):
                return None
            case [program, *words]:
                return plan | {"kind": "file", "program": program, "arguments": words}
    return None


@functools.cache
def door() -> socket.socket:
    """Where to ask for a fork; the process behind it is started once and ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", __file__, str(theirs.fileno())]
    process = Started(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment)
    theirs.close()

    atexit.register(lambda: (ours.close(), process.wait()))
    return ours


def serve(number: int) -> dict[str, Any]:
    """Loads, then forks as often as it is asked to; comes back only in the forks, with what was asked."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which then ends this
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    client = socket.socket(fileno=number)
    while True:
        text, files, _, _ = socket.recv_fds(client, MESSAGE, 64)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG if text else 0)[0]:
                pass
        if not text:
            os._exit(0)
        if os.fork() == 0:
            client.close()
            return watched(json.loads(text), files)
        for file in files:
            os.close(file)


def watched(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    """Forks once more and tells how that one ends; comes back in that one, with its files where they belong."""
    end_with_parent()
    if pid := os.fork():
        for file in files[1:]:
            os.close(file)
        news = socket.socket(fileno=files[0])
        news.send(b"%d" % pid)
        status = os.waitpid(pid, 0)[1]
        with contextlib.suppress(OSError):  # nobody waits for it any more
            news.send(b"%d" % status)
        os._exit(0)
    end_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = [fcntl.fcntl(file, fcntl.F_DUPFD, ABOVE) for file in files[1:]]
    os.closerange(3, ABOVE)
    for file, number in zip(waiting, request["numbers"], strict=True):
        os.dup2(file, number)
    os.closerange(ABOVE, ABOVE + 2 * len(waiting))
    return request


def run(request: dict[str, Any]) -> None:
    """As Python itself does after it has started."""
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = open(number, mode, encoding="utf-8", errors="backslashreplace" if number == 2 else None, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if request["silent"]:
        warnings.simplefilter("ignore")
    kind, program = request["kind"], request["program"]
    first = {"-m": os.getcwd(), "-c": ""}.get(kind, str(Path(program).parent))
    sys.path[:0] = [*([] if request["safe"] else [first]), *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    sys.argv[:] = [kind if kind == "-c" else program, *request["arguments"]]
    if kind == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), main.__dict__)
    else:
        runpy.run_path(program, run_name="__main__")


def end(code: int) -> None:
    """As Python ends, without taking apart what was loaded: that would copy all of it first."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    try:
        run(serve(int(sys.argv[1])))
    except SystemExit as stop:
        if not isinstance(stop.code, int | None):
            raise
        end(stop.code or 0)
    end(0)
