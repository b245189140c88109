"""A lock on a run folder, so that two processes never train the same run at the same time.

The operating system holds the lock and releases it when the process ends, however it ends: a lock file that a killed
process left behind is harmless. Reading a run needs no lock. Of the processes that `torchrun` starts for one run, the
first one locks.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ..disk.run_folder import LOCK
from ..i18n import Notice, Problem, _
from .parallelize import World

# Errors of file systems without locks, such as some network file systems.
UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}


class RunLock:
    """An exclusive lock on a run folder; `with lock:` trains and releases it.

    It is also released when nothing refers to it any more.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with lock_run(Path(folder)) as lock:
    ...         print(os.listdir(folder), lock.released)
    ...     print(os.listdir(folder), lock.released)
    ['.lock'] False
    [] True
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.training = folder, False
        file = _acquire(folder)
        self._release = weakref.finalize(self, _free, file, folder / LOCK, os.getpid())

    @property
    def released(self) -> bool:
        """True once another process may take the lock."""
        return not self._release.alive

    def release(self) -> None:
        """Let other processes train this run."""
        self._release()

    def __enter__(self) -> RunLock:
        if self.training:
            raise _locked_error(self.folder, os.getpid(), socket.gethostname())
        self.training = True
        return self

    def __exit__(self, *error: object) -> None:
        self.training = False
        self.release()


# Locks of this process by folder: the system would refuse a second lock to the same process too.
_locks: weakref.WeakValueDictionary[Path, RunLock] = weakref.WeakValueDictionary()


def lock_run(folder: Path) -> RunLock:
    """Return the lock of a run folder, or raise a Problem if another process has it.

    Inside one process it is shared until training starts, so that a notebook can open a run again that it has open.
    """
    lock = _locks.get(folder.resolve())
    if lock is None or lock.released:
        lock = _locks[folder.resolve()] = RunLock(folder)
    elif lock.training:
        raise _locked_error(folder, os.getpid(), socket.gethostname())
    return lock


def lock_first(folder: Path, world: World) -> RunLock | None:
    """Lock a run folder in the first process of a world, and return None in the others. A Problem is raised in all."""
    locks: list[RunLock] = []
    world.once(lambda: locks.append(lock_run(folder)))
    return locks[0] if locks else None


def _acquire(folder: Path) -> BinaryIO:
    path = folder / LOCK
    while True:
        file = open(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b", buffering=0)
        try:
            _lock(file)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                owner = re.fullmatch(rb"(\d{1,19}) ([\w.-]{1,255})\n", file.read(300))
                file.close()
                if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                    raise
                raise (
                    _locked_error(folder, int(owner[1]), owner[2].decode()) if owner else _locked_error(folder)
                ) from None
            warnings.warn(
                Notice(
                    "the file system of {folder} has no locks, so nothing stops a second  qkv train  in it: train this "
                    "run in one process at a time",
                    folder=folder,
                ),
                stacklevel=2,
            )
        # The previous owner may have removed the file between our open and our lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                with suppress(OSError):  # on a full disk the lock works without its owner's name
                    file.truncate(0)
                    file.write(f"{os.getpid()} {socket.gethostname()}\n".encode("ascii", "replace"))
                return file
        file.close()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: BinaryIO) -> None:
        file.seek(1 << 30)  # a locked byte can't be read: lock one beyond the owner's name
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        finally:
            file.seek(0)
else:
    import fcntl

    def _lock(file: BinaryIO) -> None:
        # Not lockf: that lock is lost when this process closes any handle of the file, as copying the folder does.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _free(file: BinaryIO, path: Path, owner: int) -> None:
    """Remove the lock file and release the lock; a forked child only closes its copy."""
    if os.getpid() == owner:
        with suppress(OSError):  # Windows can't remove an open file
            path.unlink()
    file.close()
    if os.getpid() == owner and sys.platform == "win32":
        with suppress(OSError):
            path.unlink()


def _locked_error(folder: Path, pid: int | None = None, host: str | None = None) -> Problem:
    return Problem(
        _("{folder} is being trained by another process: wait until it ends, or stop it. Nothing was changed")
        if pid is None
        else _(
            "{folder} is being trained by process {pid} on {host}: wait until it ends, or stop it. Nothing was changed"
        ),
        folder=folder,
        pid=pid,
        host=host,
    )
