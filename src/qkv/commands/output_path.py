"""Where a command writes what it makes, refused before the work, which may be long: a wrong ending, no right to write."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from ..i18n import Problem, one_of

FIGURES = (".png", ".svg", ".pdf")


def check_place(file: Path, endings: Sequence[str] | None = None) -> None:
    """Refuse a file that can't be written, or whose name ends in none of these."""
    if endings is not None and file.suffix.lower() not in endings:
        raise Problem("{file} should end in {endings}", file=file, endings=one_of(endings))
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    there = next(place for place in file.absolute().parents if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if not os.access(file if file.exists() else there, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
