"""A disk that is full, without an administrator: the system refuses to let any file grow beyond a few bytes."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest


@contextlib.contextmanager
def full_disk(limit=50):
    """Within the block, a file that grows beyond `limit` bytes gives EFBIG, on whatever path it is written."""
    resource = pytest.importorskip("resource")
    if subprocess.Popen.__module__ == "tests.warm":
        from tests.warm import door

        door()  # the process that forks others must not inherit the limit
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        # Python would take a module's bytecode that was cut short for the whole of it, in every later run.
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(folder: Path):
    """Every file below a folder, hidden ones too, with its bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
