"""atomic_write: a file is there completely or not at all, under its own name, and nothing else is left."""

import errno
import os
import stat
import threading

import pytest
import torch
from safetensors.torch import load_file

from qkv.disk import atomic_files
from qkv.disk.atomic_files import atomic_write, save_tensors, write_file
from tests.disk.full_disk import contents, full_disk

posix = pytest.mark.skipif(os.name != "posix", reason="links, modes and pipes of Unix")


@pytest.fixture
def umask():
    before = os.umask(0o026)
    yield 0o026
    os.umask(before)


def mode(file):
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.EIO, "I/O error"), ValueError])
def test_an_error_leaves_the_old_file_and_nothing_else(error, tmp_path):
    file = tmp_path / "page.html"
    for before in ({}, {"page.html": b"old"}):
        with pytest.raises(BaseException) as raised, atomic_write(file) as out:
            out.write(b"half of the new")
            out.flush()
            raise error
        assert isinstance(raised.value, error if isinstance(error, type) else OSError)
        assert contents(tmp_path) == before
        file.write_bytes(b"old")


def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path):
    file = tmp_path / "page.html"
    write_file(file, "old")
    with full_disk(), pytest.raises(OSError, match="File too large") as refused:
        write_file(file, "new" * 10_000)
    assert refused.value.filename == str(file)
    with full_disk(), pytest.raises(OSError, match="File too large") as refused:
        save_tensors({"a": torch.zeros(1000)}, file, {})
    assert (refused.value.errno, refused.value.filename) == (errno.EFBIG, str(file))
    assert contents(tmp_path) == {"page.html": b"old"}


def test_a_missing_folder_is_reported_by_the_target_path(tmp_path):
    with pytest.raises(FileNotFoundError) as refused:
        write_file(tmp_path / "absent" / "page.html", "new")
    assert refused.value.filename == str(tmp_path / "absent" / "page.html")
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path, "new")
    assert contents(tmp_path) == {}


def test_concurrent_writers_do_not_collide(tmp_path):
    """The file of one is never the temporary file of the other."""
    with atomic_write(tmp_path / "a") as first, atomic_write(tmp_path / "a") as second:
        first.write(b"first" * 1000)
        second.write(b"second" * 1000)
        assert len(contents(tmp_path)) == 2
    assert contents(tmp_path) == {"a": b"first" * 1000}  # the one that ended last


def test_the_longest_name_is_no_obstacle(tmp_path):
    write_file(tmp_path / ("n" * 255), "new")
    assert contents(tmp_path) == {"n" * 255: b"new"}


@posix
def test_permissions(umask, tmp_path):
    new, old, backup = tmp_path / "new", tmp_path / "old", tmp_path / "backup"
    write_file(new, "new")
    assert mode(new) == 0o666 & ~umask
    for private in (0o600, 0o755, 0o640):
        write_file(old, "old")
        old.chmod(private)
        save_tensors({"a": torch.zeros(3)}, old, {})
        assert mode(old) == private and load_file(old)["a"].shape == (3,)
        write_file(old, "new")
        assert mode(old) == private
    with atomic_write(backup, like=old) as file:
        assert mode(next(tmp_path.glob(".qkv-*"))) == 0o600, "private while it is written, too"
        file.write(b"copy")
    assert mode(backup) == 0o640


@posix
def test_owner_and_group_are_preserved(tmp_path, monkeypatch):
    """Only an administrator may give files away, so the system is not asked."""
    write_file(tmp_path / "a", "old")
    owners, real = [], os.stat_result
    status = os.stat(tmp_path / "a")
    theirs = real((*status[:4], 1234, 4321, *status[6:]))
    monkeypatch.setattr(os, "chown", lambda file, owner, group: owners.append((owner, group)))
    monkeypatch.setattr(atomic_files, "_status", lambda path: theirs)
    write_file(tmp_path / "a", "new")
    assert owners == [(-1, 4321), (1234, -1)] and contents(tmp_path) == {"a": b"new"}


@posix
def test_a_changed_group_gets_only_the_permissions_of_others(umask, tmp_path, monkeypatch):
    write_file(tmp_path / "a", "old")

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    for theirs, ours in ((0o660, 0o600), (0o664, 0o644), (0o666, 0o666)):
        status = os.stat(tmp_path / "a")
        model = os.stat_result((status.st_mode & ~0o777 | theirs, *status[1:5], status.st_gid + 1, *status[6:]))
        monkeypatch.setattr(atomic_files, "_status", lambda path, model=model: model)
        write_file(tmp_path / "a", "new")
        assert mode(tmp_path / "a") == ours


@posix
def test_a_file_reaches_the_disk_before_its_name_and_its_name_after(tmp_path, monkeypatch):
    """Else a power cut could leave an empty file where the old one was."""
    done, flush, rename = [], os.fsync, os.replace

    def fsync(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        flush(descriptor)

    def replace(old, new):
        done.append("name")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_file(tmp_path / "a", "new")
    assert done == ["file", "name", "folder"]


@posix
def test_a_link_is_followed(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/file")
    (tmp_path / "again").symlink_to("link")
    for content in ("into nothing", "into a file"):
        write_file(tmp_path / "again", content)
        assert (tmp_path / "again").is_symlink() and (tmp_path / "link").is_symlink()
        assert (tmp_path / "far" / "file").read_text() == content
    assert [file.name for file in (tmp_path / "far").iterdir()] == ["file"]


@posix
def test_a_link_to_itself_is_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write_file(tmp_path / "a", "new")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


@posix
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    write_file(tmp_path / "a", "old")
    monkeypatch.setattr(
        os, "access", lambda path, kind: False
    )  # permissions themselves would not stop an administrator
    with pytest.raises(PermissionError):
        write_file(tmp_path / "a", "new")
    assert contents(tmp_path) == {"a": b"old"}


@posix
def test_a_pipe_gets_the_content_and_stays_a_pipe(tmp_path):
    pipe, contents_read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: contents_read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, "new")
    reader.join(60)
    assert contents_read == [b"new"] and stat.S_ISFIFO(pipe.stat().st_mode) and len(list(tmp_path.iterdir())) == 1
    write_file("/dev/null", "new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
