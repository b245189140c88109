"""Files that are there wholly or not at all, with the permissions that this system gives to new ones."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def aside(path: Path) -> Iterator[BinaryIO]:
    """A file that is there wholly or not at all: written beside its place, flushed to the disk, then renamed."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    flush_folder(path.parent)  # the new name is in the folder, so the folder has to reach the disk as well


def flush_folder(folder: Path) -> None:
    """Let the names of a folder reach the disk, where a system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def save_tensors(tensors: "dict[str, Tensor]", path: Path, metadata: dict[str, str]) -> None:
    """A safetensors file that others may read as they may any new file: the library's own is its owner's alone."""
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode  # by the umask, which can only be asked for by changing it, for all threads
    save_file(tensors, path, metadata)
    path.chmod(mode)
