"""Standard streams for a process that was started without them (`qkv … <&-`, some job runners).

If file descriptor 0, 1 or 2 is closed, the system gives its number to the next file or socket that is opened: children
then inherit a socket as their stdin, and a library that prints writes into a data file. Python sets sys.stdin, sys.stdout
or sys.stderr to None, so that using it is an AttributeError.
"""

import os
import sys

replaced: set[str] = set()  # names of the streams that this process was started without


def open_missing_streams() -> None:
    """Open the null device on each closed descriptor from 0 to 2, and a stream on it where Python has none.

    Call it before the process opens any other file that stays open.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            replaced.add(name)
            mode, errors = ("w", "backslashreplace") if descriptor else ("r", "surrogateescape")
            stream = open(descriptor, mode, encoding="utf-8", errors=errors, closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
