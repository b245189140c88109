"""On a full disk every verb prints one error line, leaves older files unchanged and creates no others."""

import errno
import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, suppress
from pathlib import Path

import pytest

from qkv.cli import main
from tests.disk.full_disk import contents, full_disk

OLD = Path(__file__).parents[1] / "fixtures" / "2026-11"
MODEL = ["--model", str(OLD / "lm")]
SMALL = [f"--set={pair}" for pair in ("n_layer=1", "width=16", "n_head=2", "context=8", "eval_batches=1")]
FILES = {  # verbs that write one file, and its name
    "trace.safetensors": ["see", "the cat", *MODEL, "--save"],
    "map.png": ["see", "the cat", *MODEL, "--png"],
    "map.svg": ["see", "the cat", *MODEL, "--png"],
    "page.html": ["see", "the cat", *MODEL, "-o"],
    "looked.png": ["caption", "--demo", "--png"],
    "looked.html": ["caption", "--demo", "-o"],
    "lab.png": ["lab", "masks", "-o"],  # 7 CPU seconds
}
FOLDERS = {  # verbs that write several
    "learn": ["learn", "2"],
    "learn hint": ["learn", "hint", "2"],
    "learn solution": ["learn", "solution", "2"],
    "learn reset": ["learn", "reset", "2", "--yes"],
    "export": ["export", str(OLD / "lm"), "--out", "export"],
    "data prepare": ["data", "prepare", "book.txt", "--out", "tokens"],
    "importance": ["importance", "the cat", *MODEL, "--keep", "kept/importance.jsonl"],
    "train": ["train", "lm", "--text", "book.txt", "--out", "run", "--steps", "1", "--batch", "2", *SMALL],
}
WRONG = """
import torch

def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-2) @ v
"""
TOO_LARGE = "the file is larger than this system allows"


@pytest.fixture
def work_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("the cat sat on the mat. " * 40)
    return tmp_path


def error_line(line, capsys, limit=50):
    """Run a command on a full disk and return its only line on stderr."""
    capsys.readouterr()
    with full_disk(limit):
        code = main(line)
    stderr = capsys.readouterr().err
    lines = [line for line in stderr.splitlines() if "font" not in line and "pip install" not in line]  # none is here
    assert code == 2 and len(lines) == 1 and TOO_LARGE in lines[0], stderr
    return lines[0] + "\n"


@pytest.mark.parametrize("name", [*list(FILES)[:-1], pytest.param("lab.png", marks=pytest.mark.slow)])
def test_an_older_file_stays(name, work_folder, capsys):
    Path(name).write_text("old")
    before = contents(work_folder)
    assert error_line([*FILES[name], name], capsys) == f"qkv: {TOO_LARGE}: {name}\n"
    assert contents(work_folder) == before


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_stays_as_it_was(name, work_folder, capsys):
    before = contents(work_folder)
    error_line(FOLDERS[name], capsys)
    assert contents(work_folder) == before
    if name == "train":  # a second run goes into another folder
        return
    assert main(FOLDERS[name]) == 0
    if name == "learn reset":
        Path("learn/02_scores.py").write_text("what a person wrote")
    before = contents(work_folder)
    error_line(FOLDERS[name], capsys)
    assert contents(work_folder) == before


@pytest.mark.usefixtures("warm")
def test_check_leaves_the_file_and_no_backup(work_folder, capsys):
    Path("wrong.py").write_text(WRONG)
    before = contents(work_folder)
    stderr = error_line(["check", "wrong.py:attention", "--fix"], capsys)
    assert stderr == f"qkv: wrong.py.bak can't be written: {TOO_LARGE}\n"
    assert contents(work_folder) == before


@pytest.mark.usefixtures("warm")
def test_check_leaves_no_backup_of_a_file_that_it_could_not_change(work_folder, capsys, monkeypatch):
    Path("wrong.py").write_text(WRONG)
    before = contents(work_folder)
    monkeypatch.setattr("qkv.commands.check_fixes.write_file", lambda *_: full())
    assert main(["check", "wrong.py:attention", "--fix"]) == 2
    assert capsys.readouterr().err == "qkv: wrong.py can't be written: the disk is full\n"
    assert contents(work_folder) == before


def full():
    raise OSError(errno.ENOSPC, "No space left on device", "wrong.py")


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    """Mounts a small disk in a user namespace, where the system permits it."""
    mount = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'
    script = "import sys; from tests.laws.test_full_disk import fill; sys.exit(fill(sys.argv[1]))"
    line = ["unshare", "-rm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, script]
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("needs user namespaces")
    done = subprocess.run(line, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def fill(folder):
    """Run every verb on a disk without a free byte and return the number of failures."""
    os.chdir(folder)
    Path("book.txt").write_text("the cat sat on the mat. " * 40)
    for name in FILES:
        Path(name).write_text("old")
    with suppress(OSError), open("filler", "wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass
    before, wrong = contents(Path()), 0
    lines = [*([*line, name] for name, line in FILES.items() if name != "lab.png"), *FOLDERS.values()]
    for line in lines:
        with redirect_stderr(io.StringIO()) as err:
            code = main(line)
        stderr = err.getvalue()
        if code != 2 or "the disk is full" not in stderr or stderr.count("\n") != 1 or contents(Path()) != before:
            print(line, code, stderr, sorted(contents(Path())), file=sys.__stdout__)
            wrong += 1
    return wrong
