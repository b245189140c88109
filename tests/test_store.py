"""The store: nothing unasked, nothing unverified, nothing half there. No test here uses the network but the slow one."""

import gzip
import hashlib
import io
import json
import sys
import tarfile
import zipfile

import pytest

from qkv import store
from qkv.store import File, Item, Package
from qkv.text import read_pairs

REAL = store.ITEMS
TEXT = "To be, or not to be.\n生存还是毁灭。\n".encode()
ROWS = [{"chinese": "你好！", "translation": {"en": "Hello!"}}, {"chinese": "谢谢。", "translation": {"en": "Thanks."}}]
PAIRS = "Hello!\t你好！\nThanks.\t谢谢。\n".encode()


def digest(raw):
    return hashlib.sha256(raw).hexdigest()


def wheel(files):
    """A wheel that pip accepts, with some files in it."""
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


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(store, "ITEMS", (BOOK, ZIPPED, SENTENCES, BOTH))
    return tmp_path / "home"


def brings(archive, name="tiny_book-1.0-py3-none-any.whl"):
    """A fetch that needs no network, and counts how often it was asked."""

    def fetch(package, folder, progress):
        fetch.calls += 1
        progress(package.size, package.size)
        (folder / name).write_bytes(archive)
        return folder / name

    fetch.calls = 0
    return fetch


def never(package, folder, progress):
    raise AssertionError("it is in the cache: nothing may be fetched")


def left_behind(home):
    return sorted(str(file.relative_to(home)) for file in home.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("name", "archive", "content"),
    [("book", WHEEL, TEXT), ("zipped", SDIST, TEXT), ("pairs", WHEEL, PAIRS)],
    ids=["a file of a wheel", "a gzip of an sdist", "pairs from a table"],
)
def test_fetched_verified_kept_and_removed(name, archive, content, home):
    told = []
    assert store.path(name) is None and not home.exists(), "looking fetches nothing and makes nothing"
    file = store.get(name, progress=lambda done, total: told.append((done, total)), fetch=brings(archive))
    assert file.read_bytes() == content and told[-1] == (len(archive), len(archive))
    assert store.path(name) == file == store.get(name, fetch=never), "the second time it is there, offline too"
    assert left_behind(home) == [str(file.relative_to(home))], "no scraps"
    assert store.remove(name) and not store.remove(name)
    assert store.path(name) is None and left_behind(home) == []


def test_several_files_are_a_folder():
    folder = store.get("both", fetch=brings(WHEEL))
    assert folder.is_dir() and {file.name for file in folder.iterdir()} == {"book.txt", "pairs.tsv"}


def test_a_wrong_archive_is_kept_aside_and_not_opened(home, monkeypatch):
    monkeypatch.setattr(store, "_member", lambda *_: pytest.fail("opened before it was verified"))
    with pytest.raises(ValueError, match=r"archive of book is not what it should be .*not used .*\.rejected"):
        store.get("book", fetch=brings(WHEEL + b"x"))
    assert store.path("book") is None
    assert left_behind(home) == ["tiny_book-1.0-py3-none-any.whl.rejected"]


@pytest.mark.parametrize("inside", ["tiny_book/rows.json", "tiny_book-1.0.dist-info/METADATA"], ids=["longer", "other"])
def test_a_wrong_file_is_kept_aside(inside, home, monkeypatch):
    wrong = item("book", WHEEL, File(inside, "book.txt", digest(TEXT), len(TEXT)))
    monkeypatch.setattr(store, "ITEMS", (wrong,))
    with pytest.raises(ValueError, match=r"book\.txt of book is not what it should be"):
        store.get("book", fetch=brings(WHEEL))
    assert store.path("book") is None and left_behind(home) == ["book.txt.rejected"]
    assert (home / "book.txt.rejected").stat().st_size <= len(TEXT) + 1, "a bomb cannot fill the disk"


def test_only_regular_files_are_taken(monkeypatch):
    archive = sdist({"tiny_book-1.0/other.txt": TEXT}, links=[("tiny_book-1.0/book.txt", "other.txt")])
    linked = item("book", archive, File("tiny_book-1.0/book.txt", "book.txt", digest(TEXT), len(TEXT)))
    absent = item("absent", WHEEL, File("tiny_book/none.txt", "book.txt", digest(TEXT), len(TEXT)))
    monkeypatch.setattr(store, "ITEMS", (linked, absent))
    with pytest.raises(ValueError, match=r"has no file tiny_book-1\.0/book\.txt"):
        store.get("book", fetch=brings(archive, "tiny_book-1.0.tar.gz"))
    with pytest.raises(ValueError, match=r"has no file tiny_book/none\.txt"):
        store.get("absent", fetch=brings(WHEEL))


def test_an_interrupted_fetch_leaves_nothing(home):
    def interrupted(package, folder, progress):
        (folder / "half.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.get("book", fetch=interrupted)
    assert left_behind(home) == [] and store.path("book") is None


def test_a_file_that_somebody_changed_is_fetched_again():
    file = store.get("book", fetch=brings(WHEEL))
    file.write_bytes(b"short")
    assert store.path("book") is None
    fetch = brings(WHEEL)
    assert store.get("book", fetch=fetch).read_bytes() == TEXT and fetch.calls == 1


def test_wrong_names_are_told_the_nearest():
    with pytest.raises(ValueError, match="no data set or model named 'bok': did you mean book"):
        store.get("bok", fetch=never)
    with pytest.raises(ValueError, match="there are book, zipped"):
        store.path("something else")


def test_pip_takes_a_wheel_alone_without_a_network(tmp_path, monkeypatch):
    """The real pip, pointed at a folder instead of a registry."""
    (tmp_path / "tiny_book-1.0-py3-none-any.whl").write_bytes(WHEEL)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    told = []
    assert store.get("book", progress=lambda *now: told.append(now)).read_bytes() == TEXT
    assert told[-1] == (len(WHEEL), len(WHEEL)) and all(done <= total for done, total in told)
    store.remove("book")
    (tmp_path / "tiny_book-1.0-py3-none-any.whl").write_bytes(wheel({"tiny_book/book.txt": b"changed"}))
    with pytest.raises(ValueError, match=r"offers something else under this name .wrong hash., which was not used"):
        store.get("book")
    (tmp_path / "tiny_book-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ValueError, match=r"does not have it .any more.; use a file of your own"):
        store.get("book")


def pip_says(monkeypatch, *answers):
    """Let pip fail with these words, one after the other, and record the pauses between."""
    said, commands = iter(answers), []

    def run(command, folder, total, progress):
        commands.append(command)
        words = next(said)
        if words is None:
            (folder / "archive").mkdir()
            (folder / "archive" / "tiny_book-1.0-py3-none-any.whl").write_bytes(WHEEL)
        return (0 if words is None else 1), words or ""

    monkeypatch.setattr(store, "_run", run)
    return commands


TOO_MANY = "ERROR: HTTP error 429 while getting … 429 Client Error: Too Many Requests"


def test_a_busy_registry_is_given_time(tmp_path, monkeypatch):
    commands, pauses = pip_says(monkeypatch, TOO_MANY, TOO_MANY, None), []
    archive = store.pip_download(BOOK.package, tmp_path, lambda *_: None, sleep=pauses.append)
    assert archive.read_bytes() == WHEEL and len(commands) == 3
    assert pauses == sorted(pauses) and len(pauses) == 2 and pauses[0] >= 1
    pip_says(monkeypatch, *[TOO_MANY] * 10)
    with pytest.raises(ValueError, match="try again in some minutes"):
        store.pip_download(BOOK.package, tmp_path, lambda *_: None, sleep=pauses.append)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (
            "WARNING: Retrying … connection broken by 'NewConnectionError(…)'\nERROR: No matching distribution",
            "go online",
        ),
        ("WARNING: … Temporary failure in name resolution", "cannot be reached; go online and try again"),
        ("/usr/bin/python: No module named pip", "-m ensurepip"),
        ("something odd\n\n", "pip says «something odd»"),
    ],
    ids=["offline", "no name service", "no pip", "anything else"],
)
def test_what_pip_says_is_explained(said, says, tmp_path, monkeypatch):
    pip_says(monkeypatch, said)
    with pytest.raises(ValueError, match=says):
        store.pip_download(BOOK.package, tmp_path, lambda *_: None)


def test_pip_is_asked_for_one_archive_by_hash(tmp_path, monkeypatch):
    for package in (BOOK.package, ZIPPED.package):
        folder = tmp_path / str(package.sdist)
        folder.mkdir()
        commands = pip_says(monkeypatch, None)
        store.pip_download(package, folder, lambda *_: None)
        assert {"download", "--no-deps", "--require-hashes"} <= set(commands[0])
        assert ("--no-binary" in commands[0]) == package.sdist
        assert not any("http" in word for word in commands[0]), "the registry is the user's own"
        assert (folder / "wanted.txt").read_text() == f"tiny-book==1.0 --hash=sha256:{package.sha256}\n"


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
    assert {"shakespeare", "enwik8", "hsk"} <= {record.name for record in REAL}
    assert len({record.name for record in REAL}) == len(REAL)
    for record in REAL:
        assert record.kind in ("data", "model") and record.licence and record.note and record.note_zh
        assert any("\u4e00" <= letter <= "\u9fff" for letter in record.note_zh)
        for part in (record.package, *record.files):
            assert len(part.sha256) == 64 and part.size > 0
        assert all(file.unpack in store.UNPACK and "/" not in file.keep for file in record.files)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shakespeare", "hsk", "enwik8"])
def test_the_named_data_sets_can_be_had(name, monkeypatch):
    monkeypatch.setattr(store, "ITEMS", REAL)
    file = store.get(name)
    assert file.stat().st_size == store.find(name).size
    if name == "hsk":
        assert len(read_pairs(file)) == 4354
