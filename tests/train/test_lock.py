"""A run is trained by one process at a time, and a process that was killed locks nobody out."""

import errno
import os
import shutil
import socket
import subprocess
import sys
import threading

import pytest

from qkv.cli import main
from qkv.disk.run_folder import LOCK
from qkv.i18n import Notice, Problem
from qkv.train import lock as locking
from qkv.train.lock import lock_run
from qkv.train.run import resume, start

SMALL = dict(steps=2, n_layer=1, width=16, n_head=2, context=8, batch=2, eval_every=2, eval_batches=1)
HOLD = """
import sys
from pathlib import Path
from qkv.train.lock import lock_run
lock = lock_run(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "book.txt").write_text("the cat sat on the mat\n" * 60)
    start("lm", out=folder / "lm", source=str(folder / "book.txt"), changes=SMALL).train()
    return folder / "lm"


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "lm")


@pytest.fixture
def hold(warm):
    """Start processes that each hold the lock of a folder; they end with the test."""
    started = []

    def begin(folder):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "locked\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def files(folder):
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_the_second_process_gets_a_sentence_and_changes_nothing(run, hold, capsys):
    process = hold(run)
    before = files(run)
    for more in ([], ["--steps", "9"]):
        assert main(["train", "--resume", str(run), *more]) == 2
        message = capsys.readouterr().err
        assert f"is being trained by process {process.pid} on {socket.gethostname()}" in message
        assert "Traceback" not in message and message.count("\n") == 1
    assert files(run) == before
    (run.parent / "x.txt").write_text("a text of its own " * 100)
    assert main(["train", "lm", "--text", str(run.parent / "x.txt"), "--out", str(run)]) == 2
    assert "is being trained by process" in capsys.readouterr().err and files(run) == before
    assert main(["generate", "the", "--model", str(run), "--most", "2"]) == 0, "reading needs no lock"


def test_a_killed_process_leaves_a_lock_that_locks_nobody_out(run, hold):
    process = hold(run)
    process.kill()
    process.wait()
    assert (run / LOCK).exists()
    assert main(["train", "--resume", str(run), "--steps", "3"]) == 0
    assert not (run / LOCK).exists()


@pytest.mark.parametrize("content", [b"", b"\xff" * 400, b"12 a b\n", b"9" * 300])
def test_a_lock_file_that_names_nobody_is_enough(content, run, hold):
    hold(run)
    (run / LOCK).write_bytes(content)
    with pytest.raises(Problem, match="by another process"):
        lock_run(run)


def test_two_threads_do_not_train_a_run_at_once(run):
    first, reached, go_on = resume(run), threading.Event(), threading.Event()
    first.settings = first.settings.__class__(**{**first.settings.to_dict(), "steps": 3, "before": ()})

    def report(line):
        reached.set()
        assert go_on.wait(60)

    thread = threading.Thread(target=first.train, args=(report,))
    thread.start()
    try:
        assert reached.wait(60)
        with pytest.raises(Problem, match=f"trained by process {os.getpid()} "):
            resume(run)
    finally:
        go_on.set()
        thread.join()
    assert resume(run).state["step"] == 3


def test_a_run_that_is_only_open_can_be_opened_again(run):
    first, second = resume(run), resume(run)
    assert first.lock is second.lock and not first.lock.released
    second.train()
    assert first.lock.released and not (run / LOCK).exists()
    first.train()


def test_the_lock_is_released_when_the_run_is_dropped_or_fails(run):
    opened = resume(run)
    assert (run / LOCK).exists()
    del opened
    assert not (run / LOCK).exists()
    (run / "tokens" / "index.json").unlink()
    with pytest.raises(Problem):
        resume(run)
    assert not (run / LOCK).exists()
    with pytest.raises(Problem):
        resume(run.parent)
    assert not (run.parent / LOCK).exists()


def test_a_file_system_without_locks_warns_and_training_continues(run, monkeypatch):
    def refuse(file):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locking, "_lock", refuse)
    with pytest.warns(Notice, match="has no locks"):
        assert resume(run).train()["step"] == 2


def test_a_lock_file_removed_by_its_last_holder_is_recreated(run, monkeypatch):
    """The holder removes the file after we opened and before we locked it: that lock would hold nobody off."""
    real, removed = locking._lock, []

    def lock(file):
        if not removed:
            removed.append((run / LOCK).unlink())
        real(file)

    monkeypatch.setattr(locking, "_lock", lock)
    new_lock = lock_run(run)
    assert removed and not new_lock.released and (run / LOCK).exists()
    with pytest.raises(Problem, match="is being trained"):
        locking._acquire(run)  # as another process would


def test_a_failing_start_removes_only_what_it_created(tmp_path):
    (tmp_path / "book.txt").write_text("too short")
    for out in (tmp_path / "a" / "b" / "run", tmp_path / "empty"):
        if out.name == "empty":
            out.mkdir()
        with pytest.raises(Problem):
            start("lm", out=out, source=str(tmp_path / "book.txt"), changes=SMALL)
    assert not (tmp_path / "a").exists() and list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    with pytest.raises(Problem):
        start("lm", out=tmp_path / "mine", source=str(tmp_path / "book.txt"), changes=SMALL)
    assert (tmp_path / "mine" / "notes").exists() and not (tmp_path / "mine" / LOCK).exists()
