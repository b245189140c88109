"""Archives of a package registry, brought by its own client (pip, npm): this version, or a sentence that says why not.

Whoever asks verifies the hash of what comes: pip refuses another by itself, npm knows none of ours.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .catalogue import Package
from .files import bytes_in
from .words import Problem

Progress = Callable[[int, int], None]
UNREACHABLE = (
    *("onnection", "imed out", "resolution", "Max retries", "ProxyError"),  # pip's words, and npm's
    *("ENOTFOUND", "EAI_AGAIN", "ECONN", "ETIMEDOUT", "ENETUNREACH"),
)


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
    return _bring(package, command, folder, progress, sleep)


def npm_download(
    package: Package, folder: Path, progress: Progress, sleep: Callable[[float], None] = time.sleep
) -> Path:
    """Bring the archive of a package into a folder with npm, where that is installed; nothing of it is installed or run."""
    npm = shutil.which("npm")
    if npm is None:
        raise Problem(
            "{what} could not be fetched: it lies in npm's registry, and this system has no npm; install Node.js, which "
            "brings it, and try again. Nothing else here needs it",
            what=f"{package.name} {package.version}",
        )
    archive = folder / "archive"
    archive.mkdir(exist_ok=True)
    command = [npm, "pack", f"{package.name}@{package.version}", "--pack-destination", str(archive), "--ignore-scripts"]
    command += ["--cache", str(folder / "scratch" / "npm"), "--loglevel", "error", "--no-update-notifier"]
    return _bring(package, command, folder, progress, sleep)


CLIENTS = {"pypi": pip_download, "npm": npm_download}


def download(package: Package, folder: Path, progress: Progress) -> Path:
    """Bring the archive of a package into a folder by the client of its registry."""
    return CLIENTS[package.registry](package, folder, progress)


def _bring(
    package: Package, command: list[str], folder: Path, progress: Progress, sleep: Callable[[float], None]
) -> Path:
    """Run a client until it has put one file into `archive`."""
    for pause in (5, 20, 60, None):
        code, said = _run(command, folder, package.size, progress)
        if code == 0 and (brought := next((folder / "archive").iterdir(), None)):
            progress(package.size, package.size)
            return brought
        if pause is None or not _too_many(said):
            break
        sleep(pause)
    raise _explain(package, said)


def _run(command: list[str], folder: Path, total: int, progress: Progress) -> tuple[int, str]:
    """Run a client, telling how its files in `folder` grow."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    log = folder / "client.log"
    with log.open("wb") as out:
        # pip and npm download into a folder of their own first: put that where it can be watched
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
    """What a client's failure means, and what to do."""
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
    if any(sign in said for sign in UNREACHABLE):
        return Problem(
            "{what} could not be fetched: the package registry cannot be reached; go online and try again, or use "
            "a file of your own",
            what=what,
        )
    if any(sign in said for sign in ("No matching distribution", "E404", "ETARGET")):
        return Problem(
            "{what} could not be fetched: the package registry does not have it (any more); use a file of your own",
            what=what,
        )
    return Problem(
        "{what} could not be fetched: {client} says «{said}»",
        what=what,
        said=_last_line(said),
        client="pip" if package.registry == "pypi" else package.registry,
    )


def _too_many(said: str) -> bool:
    return re.search(r"\b429\b", said) is not None and "too many" in said.lower()


def _last_line(said: str) -> str:
    told = [line for line in said.splitlines() if line.strip() and "complete log" not in line and ".log" not in line]
    return told[-1] if told else "nothing"
