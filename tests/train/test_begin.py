"""A run that can't be begun leaves nothing behind."""

from pathlib import Path

import pytest

from qkv.cli import main
from qkv.formats.model_files import load
from qkv.train import run as runs

SMALL = ["--set=n_layer=1", "--set=width=16", "--set=n_head=2", "--context", "8", "--steps", "1", "--batch", "2"]
WRONG = {
    "no such text": ["lm", "--text", "nowhere.txt"],
    "a text that is too short": ["lm", "--text", "book.txt", "--context", "100000"],
    "a watched sentence that is too long": [
        "lm",
        "--text",
        "book.txt",
        "--set=position=learned",
        "--watch",
        "cat " * 9,
    ],
    "a watched sentence of nothing": ["lm", "--text", "book.txt", "--watch", " \n"],
    "one pair": ["translate", "--pairs", "pair.tsv"],
    "no pairs": ["translate", "--pairs", "book.txt"],
    "heads that don't divide": ["lm", "--text", "book.txt", "--set=n_head=3"],
    "a rate that is no number": ["lm", "--text", "book.txt", "--lr", "nan"],
    "no such preset": ["lm", "--text", "book.txt", "--preset", "huge"],
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("the cat sat on the mat. " * 40)
    Path("pair.tsv").write_text("a\tb\n")


def everything():
    return sorted(str(path) for path in Path().rglob("*"))


@pytest.mark.parametrize("where", ["runs/deep/run", None], ids=["named", "by default"])
@pytest.mark.parametrize("wrong", WRONG)
def test_no_folder_remains(wrong, where, capsys):
    before = everything()
    options = [*SMALL, *WRONG[wrong]] if where is None else [*SMALL, *WRONG[wrong], "--out", where]
    assert main(["train", options[len(SMALL)], *SMALL, *options[len(SMALL) + 1 :]]) == 2
    assert capsys.readouterr().err.startswith("qkv: ")
    assert everything() == before


@pytest.mark.parametrize("wrong", ["a text that is too short", "one pair"])
def test_what_was_there_stays(wrong, capsys):
    Path("empty").mkdir()
    Path("full").mkdir()
    Path("full/mine").write_text("mine")
    for folder in ("empty", "full"):
        main(["train", *WRONG[wrong], *SMALL[:3], "--out", folder])
    assert Path("empty").is_dir() and not list(Path("empty").iterdir())
    assert Path("full/mine").read_text() == "mine"


def test_a_model_that_can_not_be_built_leaves_no_run_either(monkeypatch, capsys):
    def full(*args):
        raise MemoryError

    monkeypatch.setattr(runs, "make_optimizers", full)
    before = everything()
    assert main(["train", "lm", "--text", "book.txt", *SMALL]) == 2
    assert everything() == before


@pytest.mark.parametrize("size", ["relative_buckets", "relative_distance", "rank", "rope_width"])
def test_a_size_of_a_part_that_the_model_lacks_is_no_reason_not_to_open_it(size, capsys):
    assert main(["train", "lm", "--text", "book.txt", "--out", "run", *SMALL, f"--set={size}=999"]) == 0
    assert main(["train", "--resume", "run"]) == 0
    load("run")
