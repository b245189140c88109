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
FULL = re.compile(r"can't allocate memory|out of memory|Unable to allocate|overflow|Invalid buffer size", re.IGNORECASE)
ASKED = re.compile(r"(?:allocate|buffer size:?) ([\d.]+) ?(bytes|[KMGTPE]i?B)")
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def free(device: "torch.device | None" = None) -> int | None:
    """Bytes that can still be had, on a graphics card where the device is one; None where nobody tells."""
    if getattr(device, "type", "cpu") == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    found = []
    with suppress(OSError, ValueError):
        told = dict(re.findall(r"^(\w+): +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE))
        found.append((int(told["MemAvailable"]) + int(told["SwapFree"])) << 10)
    with suppress(OSError, ValueError):  # a container may have less than its machine
        group = Path("/sys/fs/cgroup") / Path("/proc/self/cgroup").read_text().split("::")[-1].strip().lstrip("/")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    with suppress(ImportError, OSError, ValueError):
        import resource

        if (limit := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
            found.append(limit - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize())
    if not found:
        with suppress(AttributeError, OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(found), 0) if found else None


def need(size: int, sentence: str, device: "torch.device | None" = None, **values: object) -> None:
    """Refuse what takes more bytes than there are, in a sentence that is given {size} and {free}."""
    left = free(device)
    if left is not None and size > left:
        raise Problem(sentence, size=shown(size), free=shown(left), **values)


def told(error: BaseException) -> Problem | None:
    """The sentence for an error that says in a library's words that memory is full; None for any other."""
    said = str(error)
    if not isinstance(error, MemoryError) and not (isinstance(error, RuntimeError) and FULL.search(said)):
        return None
    asked, left = ASKED.search(said), free()
    size = Message("more than there is")
    if asked is not None:
        number = f"{float(asked[1]):.0f}"
        size = Message("{size}", size=shown(int(number)) if asked[2] == "bytes" else f"{asked[1]} {asked[2]}")
    return Problem(
        "memory is full: {size} was asked for and {free} is free. Take less text, a smaller batch, or a smaller model",
        size=size,
        free="?" if left is None else shown(left),
    )


def reuse() -> None:
    """Let this process keep the memory it lets go of, for what it asks for next; for commands, which end soon.

    By itself the C library hands large pieces back, and the system gives new ones page by page, each wiped first: of a
    step of SmolLM2's training that is a twentieth. Only glibc can be told.
    """
    with suppress(ImportError, OSError, AttributeError, TypeError):  # each system has its own way to have no mallopt
        import ctypes

        tell = ctypes.CDLL(None).mallopt
        for what in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD: from so many bytes on, memory is handed back
            tell(what, 2**31 - 1)
        tell(-8, 1)  # M_ARENA_MAX: one heap for all threads, or each keeps its own


def shown(size: int) -> str:
    """Bytes as people read them.

    >>> shown(512), shown(4_000_000_000_000), shown(10**40), shown(10**400)
    ('512 bytes', '4 TB', '1e+22 EB', '1e+382 EB')
    """
    digits = str(size)
    unit = min(max(len(digits) - 1, 0) // 3, len(UNITS) - 1)
    if size > 2**1000:  # somebody typed it, and no float holds it
        return f"{digits[0]}e+{len(digits) - 1 - 3 * unit} {UNITS[unit]}"
    return f"{size / 1000**unit:.3g} {UNITS[unit]}"
