"""Grading in a process of its own: `python -m qkv.lessons.run LESSON FILE RESULT`.

A person's code may run for ever, eat the memory or end the process; here it harms nobody. The grade comes back as JSON in a file.
"""

import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ..doctor.process.guard import WALL, limit, stopped
from ..words import Message
from .grade import Grade, grade, line_of
from .lesson import filename, load

LONGEST = 90.0  # seconds that any lesson may compute
MEMORY = 2 << 30  # bytes, on top of what Python and the libraries take


def run(name: str, path: Path, seconds: float | None = None) -> Grade:
    """Grade that file elsewhere and wait for it; `seconds` of computing are for the person's code, not for imports."""
    with tempfile.TemporaryDirectory(prefix="qkv-learn-") as folder:
        result = Path(folder) / "grade.json"
        command = [sys.executable, "-m", "qkv.lessons.run", name, str(path), str(result), str(seconds or 0)]
        # One thread: the matrices are small, and threads that wait for each other on a busy machine take minutes.
        environment = {**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        most = 3 * WALL * (seconds or LONGEST) + 180  # it ends itself sooner; for one that cannot any more
        try:
            child.wait(timeout=most)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end(child)
        try:
            return Grade.from_dict(json.loads(result.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError):
            return _without_result(child.returncode, Path(f"{result}.late"), path, filename(name))


def _end(child: subprocess.Popen[bytes]) -> None:
    """It and whatever it started."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    except (ProcessLookupError, PermissionError):
        pass
    child.wait()


def _without_result(code: int, late: Path, path: Path, called: str) -> Grade:
    """The process ended before it had an answer: too slow (then it left word where it was), or killed."""
    seen = late.read_text(encoding="utf-8", errors="replace") if late.exists() else ""
    if not seen.startswith("Timeout") and not stopped(code):
        return Grade(
            "unknown", [Message("the process that ran your code ended without an answer (exit code {code})", code=code)]
        )
    if at := re.search(rf'File "{re.escape(called)}", line (\d+)', seen):
        shown = line_of(path.read_text(encoding="utf-8", errors="replace"), int(at[1]))
        return Grade(
            "unknown",
            [
                Message(
                    "your code was still at line {line} when the time was up. A loop without end?\n    {shown}",
                    line=int(at[1]),
                    shown=shown,
                )
            ],
        )
    return Grade("unknown", [Message("your code wasn't done when the time was up. A loop without end?")])


def _limit_memory() -> None:
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):  # not every system can
        pass


def main(name: str, path: str, result: str, seconds: str) -> None:
    """The child: import first, then limits, then the person's code."""
    lesson = load(name)
    if lesson.doctor is not None:
        try:
            import qkv.doctor.doctor  # noqa: F401  not to be counted as the person's time
        except ImportError:
            pass
    _limit_memory()
    late = open(f"{result}.late", "w", encoding="utf-8")  # faulthandler writes to it as the process dies
    faulthandler.enable(late)
    allowed = float(seconds) or lesson.seconds
    limit(allowed, late)
    faulthandler.dump_traceback_later(3 * WALL * allowed, exit=True, file=late)  # for code that waits
    text = Path(path).read_text(encoding="utf-8-sig", errors="replace")
    made = grade(name, text, filename(name))  # an ASCII name, which faulthandler writes as it is
    faulthandler.cancel_dump_traceback_later()
    beside = Path(f"{result}.new")
    beside.write_text(json.dumps(made.to_dict(), ensure_ascii=False), encoding="utf-8")
    beside.replace(result)
    os._exit(0)  # threads of the person's code, and what they do at exit, are not waited for


if __name__ == "__main__":
    main(*sys.argv[1:])
