"""The cache: nothing is fetched unrequested, unverified or partly. Only the slow test uses the network."""

import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import zipfile
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest

from qkv.i18n import Problem, translated
from qkv.library import file_hashes, hub, store
from qkv.library.catalogue import ITEMS, File, Inner, Item, Package
from qkv.text import read_pairs
from tests.disk.full_disk import contents, full_disk

REAL = ITEMS
HOME = os.environ.get("QKV_HOME")
TEXT = "To be, or not to be.\n生存还是毁灭。\n".encode()
ROWS = [{"chinese": "你好！", "translation": {"en": "Hello!"}}, {"chinese": "谢谢。", "translation": {"en": "Thanks."}}]
PAIRS = "Hello!\t你好！\nThanks.\t谢谢。\n".encode()


def digest(raw):
    return hashlib.sha256(raw).hexdigest()


def wheel(files):
    """Return a wheel with files."""
    info = "tiny_book-1.0.dist-info"
    files = {
        **files,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-book\nVersion: 1.0\nRequires-Dist: not-wanted\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return raw.getvalue()


def sdist(files, links=()):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return raw.getvalue()


WHEEL = wheel({"tiny_book/book.txt": TEXT, "tiny_book/rows.json": json.dumps(ROWS).encode(), "../outside.txt": b"no"})
SDIST = sdist({"tiny_book-1.0/book.txt.gz": gzip.compress(TEXT), "tiny_book-1.0/cut.gz": gzip.compress(TEXT)[:-9]})


def item(name, archive, *files, **changes):
    package = Package("tiny-book", "1.0", digest(archive), len(archive), **changes)
    return Item(name, "data", package, files, "public domain", "a tiny book", "一本小书")


BOOK = item("book", WHEEL, File("tiny_book/book.txt", "book.txt", digest(TEXT), len(TEXT)))
ZIPPED = item(
    "zipped", SDIST, File("tiny_book-1.0/book.txt.gz", "book.txt", digest(TEXT), len(TEXT), "gzip"), sdist=True
)
SENTENCES = item("pairs", WHEEL, File("tiny_book/rows.json", "pairs.tsv", digest(PAIRS), len(PAIRS), "hsk"))
BOTH = item("both", WHEEL, *BOOK.files, *SENTENCES.files)
BOX = wheel({"box/deep/book.txt": TEXT, "box/other.txt": b"other"})  # an archive that lies in another
BOXED = sdist({"tiny_book-1.0/tests/data.box": BOX})
INNER = Inner("tiny_book-1.0/tests/data.box", digest(BOX), len(BOX))
NESTED = item(
    "nested",
    BOXED,
    File("box/deep/book.txt", "book.txt", digest(TEXT), len(TEXT), within=INNER),
    File("box/other.txt", "other.txt", digest(b"other"), 5, within=INNER),
    sdist=True,
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(store, "ITEMS", (BOOK, ZIPPED, SENTENCES, BOTH, NESTED))
    return tmp_path / "home"


def fetch_of(archive, name="tiny_book-1.0-py3-none-any.whl"):
    """Return a `fetch` function without network that counts its calls."""

    def fetch(package, folder, progress):
        fetch.calls += 1
        progress(package.size, package.size)
        (folder / name).write_bytes(archive)
        return folder / name

    fetch.calls = 0
    return fetch


def never(package, folder, progress):
    raise AssertionError("it is in the cache: nothing may be fetched")


def remaining_files(home):
    """Return all files in the cache except the stored hashes."""
    files = (file for file in home.rglob("*") if file.is_file() and file.name != file_hashes.NAME)
    return sorted(str(file.relative_to(home)) for file in files)


def test_a_full_disk_leaves_no_scraps(home):
    with ExitStack() as stack:

        def fetch(*arguments):
            file = fetch_of(WHEEL)(*arguments)
            stack.enter_context(full_disk(10))  # room for the archive only
            return file

        with pytest.raises(OSError, match="File too large"):
            store.get("book", fetch=fetch)
    assert contents(home) == {}
    file_hashes.write(home, {"old": {}})
    before = contents(home)
    with full_disk(10):  # errors are ignored: hashes only save time
        file_hashes.write(home, {"new": {}})
    assert contents(home) == before


@pytest.mark.parametrize(
    ("name", "archive", "content"),
    [("book", WHEEL, TEXT), ("zipped", SDIST, TEXT), ("pairs", WHEEL, PAIRS)],
    ids=["a file of a wheel", "a gzip of an sdist", "pairs from a table"],
)
def test_a_named_item_is_fetched_verified_and_removed(name, archive, content, home):
    reports = []
    assert store.path(name) is None and not home.exists(), "a lookup fetches and creates nothing"
    file = store.get(name, progress=lambda done, total: reports.append((done, total)), fetch=fetch_of(archive))
    assert file.read_bytes() == content and reports[-1] == (len(archive), len(archive))
    assert store.path(name) == file == store.get(name, fetch=never), "the second time it is there, offline too"
    assert remaining_files(home) == [str(file.relative_to(home))], "no scraps"
    assert store.remove(name) == len(content) and store.remove(name) == 0, "it says what was freed"
    assert store.path(name) is None and remaining_files(home) == []


def test_several_files_are_a_folder():
    folder = store.get("both", fetch=fetch_of(WHEEL))
    assert folder.is_dir() and {file.name for file in folder.iterdir()} == {"book.txt", "pairs.tsv"}


@pytest.mark.parametrize("name", ["book", "both"])
def test_a_file_that_was_changed_is_not_used_and_can_be_fetched_again(name, home):
    """Also at the same size; verified files are read again only with `again`."""
    path = store.get(name, fetch=fetch_of(WHEEL))
    file = path if path.is_file() else path / "book.txt"
    old, raw = file.stat(), bytearray(TEXT)
    raw[5] ^= 1
    file.write_bytes(raw)
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns + 10**9))
    assert store.path(name) is None and store.changed(name) == [file]
    assert re.search(rf"no longer what was fetched.*`qkv data get {name}`", str(store.absent(name)))
    fetch = fetch_of(WHEEL)
    assert store.get(name, fetch=fetch) == path and fetch.calls == 1 and file.read_bytes() == TEXT
    state = file.stat()
    file.write_bytes(raw)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))  # a hidden change
    assert store.path(name) == path and store.changed(name, again=True) == [file]
    file.write_bytes(TEXT)
    os.utime(file, ns=(0, 0))  # touched, but the same
    assert store.path(name) == path and store.changed(name, again=True) == []
    (home / file_hashes.NAME).write_text("{", encoding="utf-8")
    assert store.path(name) == path


def test_models_verify(home, monkeypatch, capsys):
    from qkv.cli import main

    monkeypatch.setattr(store, "ITEMS", (replace(BOOK, kind="model"), replace(BOTH, kind="model")))
    assert main(["models", "verify"]) == 2 and "there is no downloaded model to verify" in capsys.readouterr().err
    file = store.get("book", fetch=fetch_of(WHEEL))
    folder = store.get("both", fetch=fetch_of(WHEEL))
    assert main(["models", "verify"]) == 0
    assert re.findall(r"^(\w+): (\d) files", capsys.readouterr().out, re.M) == [("book", "1"), ("both", "2")]
    state = (folder / "pairs.tsv").stat()
    (folder / "pairs.tsv").write_bytes(PAIRS[::-1])
    os.utime(folder / "pairs.tsv", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert main(["models", "verify", "both", "book"]) == 2
    output = capsys.readouterr()
    assert "book: 1 files" in output.out and "pairs.tsv is no longer what was fetched" in output.err
    assert main(["models", "verify", "nested"]) == 2
    store.remove("book")
    assert not file.exists() and main(["models", "verify", "book"]) == 2
    assert "not here yet" in capsys.readouterr().err


def test_an_archive_inside_the_archive_is_opened_once_and_verified(home, monkeypatch):
    opened, member = [], store._member
    monkeypatch.setattr(store, "_member", lambda archive, name: opened.append(name) or member(archive, name))
    folder = store.get("nested", fetch=fetch_of(BOXED, "tiny_book-1.0.tar.gz"))
    assert (folder / "book.txt").read_bytes() == TEXT and (folder / "other.txt").read_bytes() == b"other"
    assert opened == [INNER.inside, "box/deep/book.txt", "box/other.txt"]
    assert len(remaining_files(home)) == 2
    assert store.remove("nested") == len(TEXT) + 5


@pytest.mark.parametrize("change", ["hash", "size"])
def test_a_wrong_inner_archive_is_rejected_unopened(change, home, monkeypatch):
    wrong = Inner(INNER.inside, "0" * 64 if change == "hash" else INNER.sha256, len(BOX) - (change == "size") * 9)
    file = File("box/deep/book.txt", "book.txt", digest(TEXT), len(TEXT), within=wrong)
    monkeypatch.setattr(store, "ITEMS", (item("nested", BOXED, file, sdist=True),))
    member = store._member
    monkeypatch.setattr(
        store, "_member", lambda archive, name: member(archive, name) if name == wrong.inside else pytest.fail("opened")
    )
    with pytest.raises(Problem, match=r"data\.box of nested is not the expected file .*not used"):
        store.get("nested", fetch=fetch_of(BOXED, "tiny_book-1.0.tar.gz"))
    assert store.path("nested") is None and remaining_files(home) == ["data.box.rejected"]


def test_a_file_that_is_not_an_archive_is_refused(monkeypatch):
    junk = b"neither a zip nor a tar"
    monkeypatch.setattr(store, "ITEMS", (item("junk", junk, *BOOK.files),))
    with pytest.raises(Problem, match="can't be opened"):
        store.get("junk", fetch=fetch_of(junk, "tiny_book-1.0.tar.gz"))


def test_folders_of_a_killed_process_are_removed_after_a_day(home):
    for name, age in (("old", 90_000), ("new", 60)):
        scraps = home / f".fetch-{name}"
        scraps.mkdir(parents=True)
        (scraps / "half.whl").write_bytes(b"half")
        then = scraps.stat().st_mtime - age
        os.utime(scraps, (then, then))
    store.get("book", fetch=fetch_of(WHEEL))
    assert sorted(folder.name for folder in home.glob(".fetch-*")) == [".fetch-new"], "another may be at work there"


def test_a_wrong_archive_is_rejected_unopened(home, monkeypatch):
    monkeypatch.setattr(store, "_member", lambda *_: pytest.fail("opened before it was verified"))
    with pytest.raises(ValueError, match=r"archive of book is not the expected file .*not used .*\.rejected"):
        store.get("book", fetch=fetch_of(WHEEL + b"x"))
    assert store.path("book") is None
    assert remaining_files(home) == ["tiny_book-1.0-py3-none-any.whl.rejected"]


@pytest.mark.parametrize("inside", ["tiny_book/rows.json", "tiny_book-1.0.dist-info/METADATA"], ids=["longer", "other"])
def test_a_wrong_file_is_rejected(inside, home, monkeypatch):
    wrong = item("book", WHEEL, File(inside, "book.txt", digest(TEXT), len(TEXT)))
    monkeypatch.setattr(store, "ITEMS", (wrong,))
    with pytest.raises(ValueError, match=r"book\.txt of book is not the expected file"):
        store.get("book", fetch=fetch_of(WHEEL))
    assert store.path("book") is None and remaining_files(home) == ["book.txt.rejected"]
    assert (home / "book.txt.rejected").stat().st_size <= len(TEXT) + 1, "a bomb cannot fill the disk"


def test_only_regular_files_are_extracted(monkeypatch):
    archive = sdist({"tiny_book-1.0/other.txt": TEXT}, links=[("tiny_book-1.0/book.txt", "other.txt")])
    linked = item("book", archive, File("tiny_book-1.0/book.txt", "book.txt", digest(TEXT), len(TEXT)))
    absent = item("absent", WHEEL, File("tiny_book/none.txt", "book.txt", digest(TEXT), len(TEXT)))
    monkeypatch.setattr(store, "ITEMS", (linked, absent))
    with pytest.raises(ValueError, match=r"has no file tiny_book-1\.0/book\.txt"):
        store.get("book", fetch=fetch_of(archive, "tiny_book-1.0.tar.gz"))
    with pytest.raises(ValueError, match=r"has no file tiny_book/none\.txt"):
        store.get("absent", fetch=fetch_of(WHEEL))


def test_an_interrupted_fetch_leaves_nothing(home):
    def interrupted(package, folder, progress):
        (folder / "half.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.get("book", fetch=interrupted)
    assert remaining_files(home) == [] and store.path("book") is None


def test_a_file_that_somebody_changed_is_fetched_again():
    file = store.get("book", fetch=fetch_of(WHEEL))
    file.write_bytes(b"short")
    assert store.path("book") is None
    fetch = fetch_of(WHEEL)
    assert store.get("book", fetch=fetch).read_bytes() == TEXT and fetch.calls == 1


def test_wrong_names_suggest_the_nearest():
    with pytest.raises(ValueError, match="no data set or model named 'bok': did you mean book"):
        store.get("bok", fetch=never)
    with pytest.raises(ValueError, match="there are book, zipped"):
        store.path("something else")


REPOSITORY = {
    "model.safetensors": b"weights" * 100,
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "vocab.txt": b"a",
    "spiece.model": b"pieces",
    "pytorch_model.bin": b"pickle",
    "model.gguf": b"another form",
    "onnx/model.json": b"not wanted",
    "README.md": b"# read me",
    "run.py": b"print()",
}


class FakeHub:
    """The methods of huggingface_hub.HfApi that are used, over files in memory, with optional failures and wrong content."""

    def __init__(self, files=None, error=None, lies=()):
        self.files, self.error, self.lies, self.requests = dict(files or REPOSITORY), error, lies, []

    def model_info(self, repository, revision=None, files_metadata=False):
        self.requests.append((repository, revision))
        if self.error:
            raise self.error
        large = [name for name in self.files if name.endswith((".safetensors", ".gguf"))]
        siblings = [
            SimpleNamespace(
                rfilename=name,
                size=len(content),
                blob_id=None
                if "no hash" in self.lies
                else hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(),
                lfs=SimpleNamespace(sha256=digest(content)) if name in large else None,
            )
            for name, content in self.files.items()
        ]
        return SimpleNamespace(sha="c0ffee", siblings=siblings)

    def hf_hub_download(self, repository, name, revision=None, local_dir=None):
        assert revision == "c0ffee", "every file of the commit that was listed"
        self.requests.append(name)
        content = self.files[name]
        (local_dir / ".cache").mkdir(exist_ok=True)
        (local_dir / ".cache" / "notes").write_text("the library's own")
        if "interrupt" in self.lies:
            raise KeyboardInterrupt
        content = content[:-1] + b"!" if name in self.lies else content[:-1] if "size" in self.lies else content
        (local_dir / name).write_bytes(content)


def refusing(status):
    """Return the library's error for an HTTP status."""
    error = RuntimeError(f"{status} for some address")
    error.response = SimpleNamespace(status_code=status)
    return error


def test_a_repository_of_the_hub_is_fetched_without_pickles(home):
    reports = []
    assert store.path("hf:owner/tiny") is None and not home.exists()
    folder = store.get("hf:owner/tiny", lambda *now: reports.append(now), api=FakeHub())
    assert folder == home / "model" / "hf" / "owner--tiny"
    expected = {"model.safetensors", "config.json", "tokenizer.json", "vocab.txt", "spiece.model"}
    assert {file.name for file in folder.rglob("*")} == expected, "no pickle, no program, no second form, no notes"
    size = sum(len(REPOSITORY[name]) for name in expected)
    assert reports[-1] == (size, size)
    offline = FakeHub(error=ConnectionError("no network"))
    assert store.get("hf:owner/tiny", api=offline) == folder == store.path("hf:owner/tiny"), "it is here, offline too"
    listed = [each for each in store.listing("model") if each.name == "hf:owner/tiny"]
    assert len(listed) == 1 and listed[0].size == size and listed[0].note and listed[0].licence
    assert "hf:owner/tiny" not in [each.name for each in store.listing("data")]
    assert store.remove("hf:owner/tiny") == size and store.remove("hf:owner/tiny") == 0
    assert store.path("hf:owner/tiny") is None and not remaining_files(home)


def test_revisions_are_cached_separately(home):
    api = FakeHub()
    first, second = store.get("hf:owner/tiny", api=api), store.get("hf:owner/tiny@refs/pr/1", api=api)
    assert first != second and api.requests[0] == ("owner/tiny", None) and ("owner/tiny", "refs/pr/1") in api.requests
    assert [each.name for each in hub.cached_repositories(home)] == ["hf:owner/tiny", "hf:owner/tiny@refs/pr/1"]


def test_a_gguf_is_a_file_and_can_be_selected():
    single = FakeHub({"small.gguf": b"GGUF", "README.md": b""})
    assert store.get("hf:owner/one", api=single).name == "small.gguf"
    several = FakeHub({"a.gguf": b"GGUF a", "b.gguf": b"GGUF b", "config.json": b"{}"})
    with pytest.raises(Problem, match=r"several GGUF files, say which: hf:owner/many/a\.gguf, hf:owner/many/b\.gguf"):
        store.get("hf:owner/many", api=several)
    assert store.get("hf:owner/many/b.gguf", api=several).read_bytes() == b"GGUF b"
    with pytest.raises(Problem, match=r"has no file c\.gguf: it has a\.gguf, b\.gguf"):
        store.get("hf:owner/many/c.gguf", api=several)


@pytest.mark.parametrize(
    ("api", "message"),
    [
        (FakeHub({"data.json": b"{}"}), "no weights that qkv reads"),
        (FakeHub(error=type("OfflineModeIsEnabled", (Exception,), {})("offline")), "cannot be reached"),
        (FakeHub(error=refusing(429)), "can't serve hf:owner/tiny at the moment .* try again in a few minutes"),
        (FakeHub(error=refusing(503)), "can't serve hf:owner/tiny at the moment"),
        (FakeHub(error=refusing(401)), "refused access to hf:owner/tiny .* log in again"),
        (FakeHub(error=RuntimeError("odd\nmore")), "could not be fetched from the hub: odd$"),
        *(
            (FakeHub(lies=(name,)), rf"{name} of hf:owner/tiny is not what the hub says it is \({kind}")
            for name, kind in (
                ("model.safetensors", "sha256"),
                *((name, "git sha1") for name in ("config.json", "tokenizer.json", "vocab.txt", "spiece.model")),
            )
        ),
        (FakeHub(lies=("no hash",)), r"lists no hash of config\.json of hf:owner/tiny"),
        (FakeHub(lies=("size",)), "did not arrive whole"),
    ],
    ids=[
        *("no weights", "offline mode", "asked too often", "down", "token", "odd"),
        *(
            "weights changed",
            "config changed",
            "tokenizer changed",
            "words changed",
            "pieces changed",
            "no hash",
            "cut",
        ),
    ],
)
def test_failures_of_the_hub_are_reported(api, message, home):
    with pytest.raises(Problem, match=message) as raised:
        store.get("hf:owner/tiny", api=api)
    assert any("\u4e00" <= letter <= "\u9fff" for letter in raised.value.say("zh"))
    assert remaining_files(home) == [] and store.path("hf:owner/tiny") is None


def test_an_interrupted_repository_leaves_nothing(home):
    with pytest.raises(KeyboardInterrupt):
        store.get("hf:owner/tiny", api=FakeHub(lies=("interrupt",)))
    assert remaining_files(home) == []


@pytest.mark.parametrize(
    "name",
    [
        "hf:",
        "hf:owner",
        "hf:../etc",
        "hf:owner/..",
        "hf:a/b/c",
        "hf:a/b@../../x",
        "hf:a b/c",
        "hf:./b",
        "hf:a/b@",
        f"hf:{'a' * 1_000_000}/b",
    ],
    ids=lambda name: name[:20],
)
def test_names_that_lead_elsewhere_are_refused(name):
    for do in (store.path, store.get, store.remove):
        with pytest.raises(Problem, match="not the name of a hub repository"):
            do(name)


def test_without_the_hubs_library_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(Problem, match="pip install huggingface_hub"):
        store.get("hf:owner/tiny")


def test_an_archive_of_a_registry_is_extracted_and_cached(home, tmp_path, monkeypatch):
    """End to end, with a folder as the source; `test_packages.py` tests indexes."""
    source = tmp_path / "tiny_book-1.0-py3-none-any.whl"
    source.write_bytes(WHEEL)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", tmp_path.as_uri())  # pip splits it at spaces
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    assert store.get("book").read_bytes() == TEXT and source.read_bytes() == WHEEL
    store.remove("book")
    source.write_bytes(wheel({"tiny_book/book.txt": b"changed"}))
    with pytest.raises(Problem, match=r"offers something else under this name .wrong hash., which was not used"):
        store.get("book")
    assert remaining_files(home) == []


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/cache"}, "/cache/qkv"),
        ("linux", {}, "/me/.cache/qkv"),
        ("darwin", {}, "/me/Library/Caches/qkv"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/qkv/Cache"),
        ("linux", {"QKV_HOME": "~/mine"}, "/me/mine"),
    ],
    ids=["XDG", "Linux", "macOS", "Windows", "QKV_HOME"],
)
def test_the_cache_is_where_the_system_keeps_caches(platform, variables, folder, monkeypatch):
    for name in ("QKV_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/me", "USERPROFILE": "/me", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert store.home().as_posix() == folder


def test_every_record_is_complete():
    assert {"shakespeare", "enwik8", "hsk", "smollm2", "minilm", "opus-zh-en", "minimind"} <= {
        record.name for record in REAL
    }
    assert len({record.name for record in REAL}) == len(REAL)
    for record in REAL:
        assert record.kind in ("data", "model") and record.licence and record.note
        assert any("\u4e00" <= letter <= "\u9fff" for letter in translated(record.note, "zh"))
        assert record.package.registry in ("pypi", "npm")
        for part in (record.package, *record.files):
            assert len(part.sha256) == 64 and part.size > 0
        assert all(file.unpack in store.UNPACK and "/" not in file.target for file in record.files)
        assert all(len(file.within.sha256) == 64 and file.within.size > 0 for file in record.files if file.within)
        assert (record.kind == "model") == bool(record.layout) == bool(record.credit)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shakespeare", "hsk", "enwik8", "smollm2", "minilm", "opus-zh-en", "minimind"])
def test_every_record_can_be_fetched(name, monkeypatch):
    """Fetches once into the user's cache; later runs use it."""
    monkeypatch.setattr(store, "ITEMS", REAL)
    if HOME is None:
        monkeypatch.delenv("QKV_HOME")
    else:
        monkeypatch.setenv("QKV_HOME", HOME)
    file = store.get(name)
    files = [file] if file.is_file() else list(file.iterdir())
    assert sum(each.stat().st_size for each in files) == store.find(name).size
    assert {each.name: digest(each.read_bytes()) for each in files} == {
        each.target: each.sha256 for each in store.find(name).files
    }
    if name == "hsk":
        assert len(read_pairs(file)) == 4354
