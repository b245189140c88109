"""The sample files of `qkv data sample`: every file that README, guide and --help name is there and can be trained on."""

import importlib
import json
import re
import shlex
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from qkv import text
from qkv.cli import VERBS, main
from qkv.commands.data import SAMPLES
from qkv.text.conversations import read_chats

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "README.zh-CN.md", "docs/guide.md", "docs/guide.zh-CN.md")]
INPUTS = {"--text", "--pairs", "--chat", "--file"}
TINY = "--steps 2 --batch 2 --eval-every 2 --set n_layer=1 --set width=16 --set n_head=2 --set eval_batches=1".split()


def documented() -> list[str]:
    """Every command line of the pages and of --help, once."""
    lines = [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()]
    lines += [
        each for verb in VERBS for each in getattr(importlib.import_module(f"qkv.commands.{verb}"), "EXAMPLES", ())
    ]
    commands = [re.sub(r"\s+# .*", "", line.strip().removeprefix("$ ")) for line in lines]
    return list(
        dict.fromkeys(line for line in commands if re.match(r"(torchrun .*-m |cat .*\| |cut .*\| )?qkv \w", line))
    )


COMMANDS = documented()


def samples(folder: Path) -> Path:
    assert main(["data", "sample", str(folder)]) == 0
    return folder


def test_every_file_that_is_documented_is_a_sample():
    """Of what a command reads; files of examples/ are in the repository."""
    names = {file.name for file in SAMPLES.iterdir()}
    inputs = set()
    for line in COMMANDS:
        words = shlex.split(line.split(" > ")[0])
        inputs |= {word for option, word in pairwise(words) if option in INPUTS or words[0] in ("cat", "cut")}
    inputs = {name for name in inputs if re.fullmatch(r"[\w-]+\.(txt|tsv|jsonl)", name)}
    assert {"mybook.txt", "mybook-zh.txt", "en-zh.tsv", "zh-en.tsv", "reviews.tsv", "chats.jsonl"} <= inputs
    assert inputs - names == set()


def test_existing_files_are_not_overwritten(tmp_path, capsys):
    (tmp_path / "mybook.txt").write_text("mine")
    samples(tmp_path)
    out = capsys.readouterr().out
    assert (tmp_path / "mybook.txt").read_text() == "mine"
    assert "kept" in next(line for line in out.splitlines() if line.split(",")[0].endswith("/mybook.txt"))
    others = {file.name for file in SAMPLES.iterdir()} - {"mybook.txt"}
    assert all((tmp_path / name).read_bytes() == (SAMPLES / name).read_bytes() for name in others)


def test_all_samples_are_written_before_anything_is_printed(tmp_path, monkeypatch):
    """`qkv data sample FOLDER | head -1` closes the pipe early."""

    def closed(*_values, **_how):
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", closed)
    with suppress(BrokenPipeError, SystemExit):
        main(["data", "sample", str(tmp_path)])
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in SAMPLES.iterdir()}


@pytest.mark.parametrize("name", ["mybook.txt", "mybook-zh.txt"])
def test_a_book_ends_as_it_begins(name):
    """Its last tenth is kept for validation: a text of another kind there can't be learned from the rest."""
    corpus = text.Corpus.of(SAMPLES / name)
    learned, validation = (
        "".join(block.text for block in corpus.blocks(*ends))
        for ends in ((corpus.start, corpus.cut()), (corpus.cut(), corpus.end))
    )
    assert len(validation) > 200 and sum(character in set(learned) for character in validation) > 0.9 * len(validation)


def test_samples_are_large_enough_to_learn_from():
    assert sum(file.stat().st_size for file in SAMPLES.iterdir()) < 200_000
    pairs = text.read_pairs(SAMPLES / "en-zh.tsv")
    assert len(pairs) >= 150 and len(set(pairs)) == len(pairs)
    assert [(b, a) for a, b in text.read_pairs(SAMPLES / "zh-en.tsv")] == pairs
    reviews, test_reviews = (text.read_labelled(SAMPLES / name) for name in ("reviews.tsv", "reviews-test.tsv"))
    assert len(reviews) >= 120 and not set(reviews) & set(test_reviews)
    for rows in (reviews, test_reviews):
        assert {label: [each for _, each in rows].count(label) for label in ("positive", "negative")} == {
            "positive": len(rows) // 2,
            "negative": len(rows) // 2,
        }
    assert len(read_chats(str(SAMPLES / "chats.jsonl"))) >= 40


@pytest.mark.parametrize("name", ["mybook.txt", "mybook-zh.txt"])
def test_the_other_text_has_no_character_that_the_book_lacks(name):
    """A run on the book knows its characters alone."""
    book = (SAMPLES / name).read_text(encoding="utf-8")
    other = (SAMPLES / name.replace("mybook", "another")).read_text(encoding="utf-8")
    assert set(other) <= set(book) and len(other) > 200
    assert text.choose([book]).kind == "characters"


LEARNED = [line for line in COMMANDS if re.search(r"qkv train (lm|mlm|translate)\b", line)]
LEARNED = [line for line in LEARNED if not re.search("--from|torchrun|shakespeare|…|--preset|n_layer|mixer", line)]


@pytest.mark.slow
@pytest.mark.parametrize("line", LEARNED)
def test_documented_training_lines_run_on_the_samples(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(samples(tmp_path))
    arguments = shlex.split(line)[1:]
    assert main([*arguments, *TINY]) == 0, capsys.readouterr().err
    record = json.loads(next((tmp_path / "runs").glob("*/config.json")).read_text(encoding="utf-8"))
    assert record["task"] == arguments[1]
