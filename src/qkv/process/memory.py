"""How much memory there is, and a sentence before it runs out.

Linux promises more than it has and ends the process that believes it, so what is large is counted before it is asked for.
Sizes are lower bounds: what is refused can't work, what is not refused may still not.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..i18n import Message, Problem

if TYPE_CHECKING:
    import torch

# How libraries say it. A size beyond all numbers of 64 bits is too large as well.
MEMORY_ERRORS = re.compile(
    r"can't allocate memory|out of memory|Unable to allocate|overflow|Invalid buffer size", re.IGNORECASE
)
REQUESTED_SIZE = re.compile(r"(?:allocate|buffer size:?) ([\d.]+) ?(bytes|[KMGTPE]i?B)")
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def free(device: "torch.device | None" = None) -> int | None:
    """Bytes that can still be had, on a graphics card where the device is one; None where nobody tells."""
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
    """Refuse what takes more bytes than there are, in a sentence that is given {size} and {free}."""
    available = free(device)
    if available is not None and size > available:
        raise Problem(sentence, size=format_size(size), free=format_size(available), **values)


def explain(error: BaseException) -> Problem | None:
    """The sentence for an error that says in a library's words that memory is full; None for any other."""
    text = str(error)
    if not isinstance(error, MemoryError) and not (isinstance(error, RuntimeError) and MEMORY_ERRORS.search(text)):
        return None
    match, available = REQUESTED_SIZE.search(text), free()
    size = Message("more than there is")
    if match is not None:
        number = f"{float(match[1]):.0f}"
        size = Message("{size}", size=format_size(int(number)) if match[2] == "bytes" else f"{match[1]} {match[2]}")
    return Problem(
        "memory is full: {size} was asked for and {free} is free. Take less text, a smaller batch, or a smaller model",
        size=size,
        free="?" if available is None else format_size(available),
    )


def keep_freed_memory() -> None:
    """Let this process keep the memory it lets go of, for what it asks for next; for commands, which end soon.

    By itself the C library hands large pieces back, and the system gives new ones page by page, each wiped first: of a
    step of SmolLM2's training that is a twentieth. Only glibc can be told.
    """
    with suppress(ImportError, OSError, AttributeError, TypeError):  # each system has its own way to have no mallopt
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
        for option in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD: from so many bytes on, memory is handed back
            mallopt(option, 2**31 - 1)
        mallopt(-8, 1)  # M_ARENA_MAX: one heap for all threads, or each keeps its own


def format_size(size: int) -> str:
    """Bytes as people read them.

    >>> format_size(512), format_size(4_000_000_000_000), format_size(10**40), format_size(10**400)
    ('512 bytes', '4 TB', '1e+22 EB', '1e+382 EB')
    """
    digits = str(size)
    unit = min(max(len(digits) - 1, 0) // 3, len(UNITS) - 1)
    if size > 2**1000:  # somebody typed it, and no float holds it
        return f"{digits[0]}e+{len(digits) - 1 - 3 * unit} {UNITS[unit]}"
    return f"{size / 1000**unit:.3g} {UNITS[unit]}"
