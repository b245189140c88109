"""Every new file and folder has exactly the permissions of the umask."""

import os
import shutil
from pathlib import Path

import pytest

from qkv.cli import main
from qkv.formats.model_files import load
from qkv.tracing.record.recorder import trace

OLD = Path(__file__).parents[1] / "fixtures" / "2026-11"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="elsewhere files have no such modes")


@pytest.fixture
def umask():
    mask = 0o026  # differs from the 600 of temporary files and the 644 of most systems
    before = os.umask(mask)
    yield mask
    os.umask(before)


def test_new_files_have_umask_permissions(umask, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("the cat sat on the mat. " * 40)
    Path("pairs.tsv").write_text("a cat\tune chatte\na mat\tun tapis\n" * 3)
    small = [f"--set={pair}" for pair in ("n_layer=1", "width=16", "n_head=2", "context=8", "eval_batches=1")]
    small += ["--steps", "1", "--batch", "2"]
    lines = [
        ["train", "lm", "--text", "book.txt", "--out", "runs/lm", "--watch", "the cat", "--set=qk_norm=none", *small],
        ["train", "translate", "--pairs", "pairs.tsv", "--out", "runs/pairs", *small],
        ["train", "--resume", "runs/lm", "--steps", "2"],
        ["export", "runs/lm", "--out", "export"],
        ["data", "prepare", "book.txt", "--out", "tokens"],
        ["importance", "the cat", "--model", "runs/lm", "--keep", "kept/importance.jsonl"],
        ["see", "the cat", "--model", "runs/lm", "--save", "trace.safetensors", "-o", "page.html", "--png", "map.png"],
        ["learn", "2"],
        ["learn", "hint"],
        ["lab", "masks", "-o", "lab.png"],
    ]
    for line in lines:
        assert main(line) == 0, (line, capsys.readouterr().err)
    model, tokenizer = load(OLD / "lm")
    trace(model, "the cat", tokenizer).save(Path("again/trace.safetensors"), half=True)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert {"model.safetensors", "state.json", "config.json", "index.json", "page.html"} <= {
        file.name for file in files
    }
    wrong = {
        str(path): f"{mode:03o}"
        for path in Path().rglob("*")
        if (mode := path.stat().st_mode & 0o777) != expected_mode(path, umask)
    }
    assert not wrong


def expected_mode(path, umask):
    return (0o777 if path.is_dir() else 0o666) & ~umask


def test_a_file_that_is_replaced_keeps_its_permissions(umask, tmp_path):
    model, tokenizer = load(OLD / "lm")
    file = tmp_path / "trace.safetensors"
    shutil.copy(OLD / "trace.safetensors", file)
    file.chmod(0o600)
    trace(model, "the cat", tokenizer).save(file)
    assert file.stat().st_mode & 0o777 == 0o600
