"""Free memory, and errors before and after it runs out.

Linux grants more memory than it has and kills the process that uses it, so large allocations are checked beforehand.
The sizes are lower bounds: a refused allocation can't work, an accepted one may still fail.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..i18n import Message, Problem

if TYPE_CHECKING:
    import torch

# Error messages of libraries. "overflow": a size beyond 64 bits.
MEMORY_ERRORS = re.compile(
    r"can't allocate memory|out of memory|Unable to allocate|overflow|Invalid buffer size", re.IGNORECASE
)
REQUESTED_SIZE = re.compile(r"(?:allocate|buffer size:?) ([\d.]+) ?(bytes|[KMGTPE]i?B)")
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def free(device: "torch.device | None" = None) -> int | None:
    """Return the free bytes of the machine, or of a CUDA device; None if unknown."""
    if getattr(device, "type", "cpu") == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    limits = []
    with suppress(OSError, ValueError):
        explain = dict(re.findall(r"^(\w+): +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE))
        limits.append((int(explain["MemAvailable"]) + int(explain["SwapFree"])) << 10)
    with suppress(OSError, ValueError):  # a container may have less than its machine
        group = Path("/sys/fs/cgroup") / Path("/proc/self/cgroup").read_text().split("::")[-1].strip().lstrip("/")
        limits.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    with suppress(ImportError, OSError, ValueError):
        import resource

        if (limit := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
            limits.append(limit - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize())
    if not limits:
        with suppress(AttributeError, OSError, ValueError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(limits), 0) if limits else None


def require(size: int, sentence: str, device: "torch.device | None" = None, **values: object) -> None:
    """Raise a `Problem` if fewer than `size` bytes are free; `sentence` may contain {size} and {free}."""
    available = free(device)
    if available is not None and size > available:
        raise Problem(sentence, size=format_size(size), free=format_size(available), **values)


def explain(error: BaseException) -> Problem | None:
    """Return the Problem for an out-of-memory error of a library, None for any other error."""
    text = str(error)
    if not isinstance(error, MemoryError) and not (isinstance(error, RuntimeError) and MEMORY_ERRORS.search(text)):
        return None
    match, available = REQUESTED_SIZE.search(text), free()
    size: object = Message("more than available")
    if match is not None:
        size = format_size(round(float(match[1]))) if match[2] == "bytes" else f"{match[1]} {match[2]}"
    return Problem(
        "out of memory: {size} was requested and {free} is free. Use less text, a smaller batch or a smaller model",
        size=size,
        free="?" if available is None else format_size(available),
    )


def keep_freed_memory() -> None:
    """Keep freed memory in the process (glibc `mallopt`). Only for short-lived commands.

    By default glibc returns large blocks to the system, which clears every new page: 5% of a training step of SmolLM2.
    """
    with suppress(ImportError, OSError, AttributeError, TypeError):  # raised by systems without mallopt
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
        for option in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD in bytes
            mallopt(option, 2**31 - 1)
        mallopt(-8, 1)  # M_ARENA_MAX: one heap for all threads


def format_size(size: int) -> str:
    """Return a number of bytes with a unit.

    >>> format_size(512), format_size(4_000_000_000_000), format_size(10**40), format_size(10**400)
    ('512 bytes', '4 TB', '1e+22 EB', '1e+382 EB')
    """
    digits = str(size)
    unit = min(max(len(digits) - 1, 0) // 3, len(UNITS) - 1)
    if size > 2**1000:  # typed by a user, too large for a float
        return f"{digits[0]}e+{len(digits) - 1 - 3 * unit} {UNITS[unit]}"
    return f"{size / 1000**unit:.3g} {UNITS[unit]}"
