"""qkv eval on the command line, as a person meets it."""

import json
import math
import sys

import pytest

import qkv
from qkv.cli import main
from qkv.evaluation.text_metrics import score_pairs, score_text
from qkv.terminal import progress
from qkv.text.pairs import read_pairs


@pytest.fixture
def call(capfd, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")

    def run_command(*arguments):
        capfd.readouterr()
        return main([str(each) for each in arguments]), *capfd.readouterr()

    return run_command


@pytest.fixture
def book(tmp_path):
    """A text of a few windows, whose letters the run `lm` knows."""
    file = tmp_path / "text.txt"
    file.write_text("the cat sat on the mat, 我爱北京天安门\n1: 4\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("windows", [[], ["--context", 7], ["--context", 7, "--stride", 7]], ids=str)
def test_a_text_gets_the_library_scores(call, shelf, book, windows):
    text, sizes = book.read_text(encoding="utf-8"), dict(zip(["context", "stride"], windows[1::2], strict=False))
    score = score_text(*qkv.load(shelf / "lm"), text, **sizes)
    code, out, err = call("eval", "--model", shelf / "lm", "--text", book, *windows)
    first, numbers, how = out.splitlines()
    assert (code, err) == (0, "")
    assert f"{len(text) - 1} tokens, {len(text.encode()) - 1} bytes" in first
    assert f"loss {score.loss:.4f} " in numbers and f"perplexity {score.perplexity:.3f} " in numbers
    assert f"{score.bits_per_byte:.4f} bits per byte" in numbers
    assert f"{score.windows} windows of {score.context} tokens, a new one every {score.stride}" in how
    content = json.loads(call("eval", "--model", shelf / "lm", "--text", book, *windows, "--json")[1])
    assert (
        content["loss"] == score.loss
        and content["perplexity"] == score.perplexity
        and content["tokens"] == len(score.nats)
    )
    assert content["bits_per_byte"] == score.bits_per_byte and content["windows"] == score.windows


def test_tokens_are_joined_to_characters(call, tmp_path, shelf):
    """A character of three bytes is one line, whose loss is the sum of its tokens'."""
    small = "--set n_layer=1 --set width=16 --set n_head=2 --context 16 --batch 4 --steps 2 --tokenizer bytes".split()
    assert call("train", "lm", "--text", shelf / "book.txt", "--out", tmp_path / "run", *small)[0] == 0
    code, out, _ = call("eval", "a 人\n工b", "--model", tmp_path / "run", "--tokens")
    rows = [line.split() for line in out.split("\n\n")[0].splitlines()]
    assert code == 0 and [label for _, label in rows] == ["␣", "人", "⏎", "工", "b"]
    content = json.loads(call("eval", "a 人\n工b", "--model", tmp_path / "run", "--tokens", "--json")[1])
    assert [piece["text"] for piece in content["pieces"]] == [" ", "人", "\n", "工", "b"]
    assert math.isclose(sum(piece["loss"] for piece in content["pieces"]), content["loss"] * content["tokens"])
    assert content["tokens"] == content["bytes"] == 9


def test_a_text_is_read_unchanged_from_a_file_or_a_pipe(call, shelf, book, monkeypatch):
    import io

    expected = call("eval", book.read_text(encoding="utf-8"), "--model", shelf / "lm")[1].splitlines()[-2:]
    assert call("eval", "--text", book, "--model", shelf / "lm")[1].splitlines()[1:] == expected
    for source in (["-"], ["--text", "-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(book.read_bytes()), encoding="utf-8"))
        assert call("eval", *source, "--model", shelf / "lm")[1].splitlines()[1:] == expected


def test_pairs_are_listed_in_order_with_every_score(call, shelf):
    file = shelf / "pairs.tsv"
    pairs = [(line, *pair) for line, pair in enumerate(read_pairs(file), start=1)]
    score = score_pairs(*qkv.load(shelf / "translate"), pairs, width=2, most=8)
    code, out, err = call("eval", "--model", shelf / "translate", "--pairs", file, "--beam", 2, "--most", 8)
    assert (code, err) == (0, "") and "40 pairs" in out
    for content in (f"loss {score.loss:.4f}", f"BLEU {score.bleu.score:.2f}", f"chrF {score.chrf.score:.2f}"):
        assert content in out
    assert score.bleu.signature in out and f"exact match {score.exact:.1%}" in out
    content = json.loads(
        call("eval", "--model", shelf / "translate", "--pairs", file, "--beam", 2, "--most", 8, "--json")[1]
    )
    assert [(each["line"], each["source"], each["target"]) for each in content["each"]] == pairs
    assert [each["said"] for each in content["each"]] == [pair.translation for pair in score.pairs]
    assert (
        content["bleu"]["score"] == score.bleu.score
        and content["exact_match"] == score.exact
        and content["skipped"] == []
    )
    lines = call("eval", "--model", shelf / "translate", "--pairs", file, "--each", "--most", 8)[1].splitlines()
    assert [int(line.split()[0]) for line in lines if " → " in line] == list(range(1, 41))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_bad_line_is_named_and_skipped_and_nothing_is_lost(call, tmp_path, lang):
    source = "15 Nov 2026\t2026-11-15\nno tab here\n\n2026年11月15日\t2026-11-15\r\na\tb\tc\n\t2026-01-01\nMay 4, 2026\t2026-05-05\n"
    (tmp_path / "test.tsv").write_text(source, encoding="utf-8", newline="")
    demo = str(qkv.__path__[0]) + "/demo/dates"
    code, out, err = call("eval", "--model", demo, "--pairs", tmp_path / "test.tsv", "--each", "--lang", lang)
    assert code == 1
    content = {
        "en": ["line 2: the number of columns is 1", "line 5: the number of columns is 3", "line 6: the source or"],
        "zh": ["第 2 行", "第 5 行", "第 6 行"],
    }
    assert all(line.startswith(words) for line, words in zip(err.splitlines(), content[lang], strict=False)), err
    assert [line.split()[0] for line in out.splitlines() if " → " in line] == ["1", "4", "7"]
    assert "66.7%" in out
    code, out, _ = call("eval", "--model", demo, "--pairs", tmp_path / "test.tsv", "--json", "--lang", lang)
    assert code == 1 and [each["line"] for each in json.loads(out)["skipped"]] == [2, 5, 6]


def test_without_sacrebleu_a_sentence_names_the_command(call, shelf, monkeypatch):
    for name in ("sacrebleu", "sacrebleu.metrics"):
        monkeypatch.setitem(sys.modules, name, None)
    code, out, err = call("eval", "--model", shelf / "translate", "--pairs", shelf / "pairs.tsv", "--most", 4)
    assert code == 0 and "pip install sacrebleu" in err and "BLEU" not in out and "exact match" in out


@pytest.mark.parametrize(("run", "kind"), [("lm", "decoder"), ("mlm", "encoder")])
def test_a_model_that_pairs_are_not_for_is_refused_before_anything_else(call, shelf, monkeypatch, run, kind):
    """No advice to install what this model has no use for."""
    for name in ("sacrebleu", "sacrebleu.metrics"):
        monkeypatch.setitem(sys.modules, name, None)
    code, out, err = call("eval", "--model", shelf / run, "--pairs", shelf / "pairs.tsv")
    assert (code, out) == (2, "") and err.startswith("qkv: ") and err.count("\n") == 1
    assert f"a model of kind {kind}: qkv eval --pairs needs a translator, such as opus-zh-en" in err
    code, _, err = call("eval", "--model", shelf / run, "--pairs", shelf / "pairs.tsv", "--lang", "zh")
    assert code == 2 and "需要翻译模型" in err and "sacrebleu" not in err


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ([], "--text FILE or --pairs TSV"),
        (["--text", "{}/none.txt"], "there is no file"),
        (["--text", "{}/empty.txt"], "empty.txt is empty"),
        (["--text", "{}"], "folder"),
        (["t"], "has 1 tokens"),
        (["--pairs", "{}/none.tsv"], "there is no file"),
        (["--pairs", "{}/empty.txt"], "has no pairs"),
    ],
    ids=str,
)
def test_mistakes_get_a_sentence_and_exit_2(call, shelf, tmp_path, arguments, phrase):
    (tmp_path / "empty.txt").write_text(" \n")
    code, out, err = call("eval", "--model", shelf / "lm", *(each.replace("{}", str(tmp_path)) for each in arguments))
    assert (code, out) == (2, "") and phrase in err and err.startswith("qkv: ") and err.count("\n") == 1


def test_progress_is_reported(call, shelf, book, monkeypatch):
    updates = []
    monkeypatch.setattr(progress._Line, "__call__", lambda self, done, total: updates.append((self.what, done, total)))
    assert call("eval", "--model", shelf / "lm", "--text", book, "--context", 2, "--stride", 1)[0] == 0
    last = len(book.read_text(encoding="utf-8")) - 1
    assert updates[-1][1:] == (last, last) and updates == sorted(updates)
    assert call("eval", "--model", shelf / "translate", "--pairs", shelf / "pairs.tsv", "--most", 2)[0] == 0
    assert updates[-1][1:] == (40, 40)
