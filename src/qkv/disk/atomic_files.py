"""Atomic file writing: every file that qkv writes is there completely or not at all."""

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from torch import Tensor

TEMPORARY = ".qkv-*.tmp"  # short: the name of the target may be as long as the file system allows


@contextmanager
def atomic_write(path: str | Path, *, like: Path | None = None) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path` and rename it to `path` when the block ends without an error.

    After any error, also a full disk or Ctrl-C, the temporary file is removed and an older file at `path` is unchanged.
    Libraries that want a path get `file.name`. A new file has the permissions that the umask gives, a replaced one keeps
    its own, and `like` names another file to copy them from. Symbolic links are followed. If `path` is not a regular file
    (a pipe, /dev/null), the complete content is copied into it.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder, "a.txt")) as file:
    ...         _ = file.write(b"to be")
    ...     print(Path(folder, "a.txt").read_text(), os.listdir(folder))
    to be ['a.txt']
    """
    path = Path(path)
    temporary = None
    try:
        old = _status(path)
        special = old is not None and not stat.S_ISREG(old.st_mode)
        if old is not None and not os.access(path, os.W_OK):  # os.replace ignores the file's own permissions
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        target = path if special else Path(os.path.realpath(path))
        model = old if like is None else like.stat()
        folder = Path(tempfile.gettempdir()) if special else target.parent
        temporary = folder / TEMPORARY.replace("*", os.urandom(8).hex())
        private = special or model is not None
        with open(
            temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600 if private else 0o666)
        ) as file:
            mode = os.fstat(file.fileno()).st_mode
            yield file
        with temporary.open("r+b") as file:  # opened again: a library may have put another file there
            os.fsync(file.fileno())
        if special:
            with temporary.open("rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            return
        _set_permissions(temporary, mode, model)
        os.replace(temporary, target)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(path), None  # the name that the user knows
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    flush_folder(target.parent)  # the new name is in the folder, so the folder has to reach the disk as well


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a whole file atomically; text as UTF-8, its line ends as they are."""
    data = content.encode() if isinstance(content, str) else content
    with atomic_write(path) as file:
        file.write(data)


def save_tensors(tensors: "dict[str, Tensor]", path: Path, metadata: dict[str, str]) -> None:
    """Write a safetensors file atomically. Raises OSError if the system refuses, as other writers do."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with atomic_write(path) as file:
        try:
            save_file(tensors, file.name, metadata)
        except SafetensorError as error:  # its only error class; the errno is in the text
            number = re.search(r"\(os error (\d+)\)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def flush_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk (POSIX only)."""
    if os.name == "posix":
        with suppress(PermissionError):  # a folder that may be written to, but not listed
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _status(path: Path) -> os.stat_result | None:
    """Return the status of a file, following links; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return status


def _set_permissions(file: Path, mode: int, model: os.stat_result | None) -> None:
    """Give a file the owner, group and permissions of another, else the permissions it was created with."""
    now = file.stat()
    if model is not None:
        mode = model.st_mode
        if hasattr(os, "chown") and (now.st_uid, now.st_gid) != (model.st_uid, model.st_gid):
            for owner, group in ((-1, model.st_gid), (model.st_uid, -1)):
                with suppress(OSError):  # only an administrator may give files away
                    os.chown(file, owner, group)
        if file.stat().st_gid != model.st_gid:  # the group differs: give it the permissions of others
            mode &= ~0o070 | (mode & 0o007) << 3
    if stat.S_IMODE(now.st_mode) != mode & 0o777:
        file.chmod(mode & 0o777)
