"""Checks of output files before the work, which may be long."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from ..i18n import Problem, one_of

FIGURES = (".png", ".svg", ".pdf")


def check_output(file: Path, endings: Sequence[str] | None = None) -> None:
    """Raise if the file can't be written or its name has none of these endings."""
    if endings is not None and file.suffix.lower() not in endings:
        raise Problem("{file} should end in {endings}", file=file, endings=one_of(endings))
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    folder = next(parent for parent in file.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
