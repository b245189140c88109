"""The guard over a person's code: it counts processor time, so that code on a busy machine is stopped no sooner.

What waits without computing is ended by the clock on the wall, which is given WALL times as long, and again as long while
the process computes at all. Either way the code has not been looked at to its end, and nothing that a guard stopped is
ever called right.
"""

import contextlib
import faulthandler
import math
import os
import signal
from pathlib import Path

WALL = 5


def limit(seconds: float, trace: int) -> None:
    """From now on so many seconds of this process; then it dies of SIGXCPU, and where it was stands in the file `trace`.

    Systems that know no such limit have only the clock on the wall.
    """
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    most, hard = math.ceil(used.ru_utime + used.ru_stime + seconds), resource.getrlimit(resource.RLIMIT_CPU)[1]
    with contextlib.suppress(ValueError, OSError):
        faulthandler.register(signal.SIGXCPU, trace, all_threads=False, chain=True)
        resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def computed(pid: int) -> float:
    """Seconds of processor time that a process has had so far; 0 where the system doesn't tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def stopped(code: int | None) -> bool:
    """Whether a process with that exit code used up its time."""
    return code is not None and code == -getattr(signal, "SIGXCPU", 0) != 0
