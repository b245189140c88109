"""qkv train classify, qkv classify, qkv eval on labels: what a person types, right and wrong."""

import json
import sys
from io import BytesIO, TextIOWrapper

import pytest
import torch

from qkv import Config, Transformer
from qkv.cli import main
from qkv.evaluation.classification import classify
from qkv.formats.model_files import load
from qkv.i18n import Notice, Problem
from qkv.text import Bytes, Characters, LabelledTexts
from qkv.train import run as runs

GOOD, BAD = "good fine great lovely 好看".split(), "bad awful dull poor 难看".split()
LINES = [f"{word} film number {i}\t{label}" for i in range(12) for label, words in (("pos", GOOD), ("neg", BAD)) for word in words]  # fmt: skip
SMALL = dict(n_layer=1, width=32, n_head=2, context=32, batch=4, eval_batches=1, steps=2)


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory):
    """A folder with a small encoder, texts with labels, and a classifier."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "reviews.tsv").write_text("\n".join(LINES), encoding="utf-8")
    (folder / "book.txt").write_text("\n".join(line.split("\t")[0] for line in LINES), encoding="utf-8")
    changes = SMALL | dict(position="learned", norm="layer", norm_place="post")
    runs.start("mlm", out=folder / "base", source=str(folder / "book.txt"), changes=changes).train()
    begin(folder, folder / "run", lr=3e-3, steps=60).train()
    return folder


def begin(runs_folder, out, **changes):
    return runs.start(
        "classify", out=out, base=str(runs_folder / "base"), pairs=str(runs_folder / "reviews.tsv"), changes=changes
    )


def test_a_classifier_learns_and_all_commands_agree(runs_folder, capsys, monkeypatch):
    assert (
        main(["eval", "--model", str(runs_folder / "run"), "--pairs", str(runs_folder / "reviews.tsv"), "--json"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["accuracy"] > 0.9 and report["labels"] == ["neg", "pos"] and report["lines"] == len(LINES)
    assert sum(map(sum, report["confusion"])) == len(LINES)
    first = report["each"][0]
    assert main(["classify", first["text"], "--model", str(runs_folder / "run"), "--json"]) == 0
    (alone,) = json.loads(capsys.readouterr().out)
    assert alone["labels"] == pytest.approx(first["probabilities"], abs=1e-6)
    assert main(["classify", first["text"], "--model", str(runs_folder / "run")]) == 0
    assert "%" in capsys.readouterr().out
    piped = "good film\n\n" + "x" * 99 + "\nawful film\n"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(piped.encode())))
    assert main(["classify", "-", "--model", str(runs_folder / "run")]) == 1
    out, err = capsys.readouterr()
    rows = out.split("\n")
    assert [row.split("\t")[0] for row in rows] == ["pos", "", "", "neg", ""]
    assert "line 3: " in err and "lines left out, as named above: 1" in err


def test_a_table_for_people(runs_folder, capsys):
    (runs_folder / "test.tsv").write_text("good film\tpos\nawful film\tneg\nwhat\tso-so\nno label\n", encoding="utf-8")
    assert main(["eval", "--model", str(runs_folder / "run"), "--pairs", str(runs_folder / "test.tsv"), "--each"]) == 1
    out, err = capsys.readouterr()
    assert "accuracy 100.0%" in out and "precision" in out and "confusion" in out
    assert "line 3: the label 'so-so' was not seen in training: the model knows neg, pos" in err
    assert "line 4: the number of columns is 1, not 2" in err
    assert (
        main(["--lang", "zh", "eval", "--model", str(runs_folder / "run"), "--pairs", str(runs_folder / "test.tsv")])
        == 1
    )
    assert "准确率 100.0%" in capsys.readouterr().out


def test_where_no_line_can_be_measured_the_first_is_named(runs_folder, capsys):
    (runs_folder / "none.tsv").write_text("\ngood film\tso-so\nfine\tso-so\n", encoding="utf-8")
    for lang, message in (("en", "qkv: line 2: the label 'so-so'"), ("zh", "qkv：第 2 行：标签 'so-so'")):
        assert (
            main(
                ["--lang", lang, "eval", "--model", str(runs_folder / "run"), "--pairs", str(runs_folder / "none.tsv")]
            )
            == 2
        )
        assert message in capsys.readouterr().err


def test_resumed_equals_uninterrupted_bit_for_bit(runs_folder, tmp_path):
    class Power(Exception):
        """The power goes."""

    def cut(line):
        if line["step"] == 7:
            raise Power

    settings = dict(steps=12, checkpoint_every=5, dropout=0.1, patience=None)
    whole = begin(runs_folder, tmp_path / "whole", **settings)
    whole.train()
    with pytest.raises(Power):
        begin(runs_folder, tmp_path / "cut", **settings).train(cut)
    again = runs.resume(tmp_path / "cut")
    again.train()
    assert all(torch.equal(p, q) for p, q in zip(whole.model.parameters(), again.model.parameters(), strict=True))


def test_unknown_characters_are_reported(runs_folder, tmp_path, monkeypatch):
    """An English encoder reads 很好看 as three times "unknown", and would tell one label of all such texts."""
    english = Characters.make("abc ", special=["pad", "eos", "unk"])
    texts = LabelledTexts([("ab很", "x"), ("好看", "y"), ("abc", "y")], ("x", "y"), english, most=9)
    assert texts.unknown == 3 / 8 and LabelledTexts([("很", "x")], ("x",), Bytes.make(), most=9).unknown == 0
    model = Transformer(Config(kind="encoder", head="classes", labels=("x", "y"), vocab=english.vocab, width=8, n_head=1, pooler=True))  # fmt: skip
    with pytest.raises(Problem, match="knows none of the characters of '很好看'"):
        classify(model, english, ["很好看"])
    with pytest.warns(Notice, match="doesn't know 1 of the 2 tokens of '很a'"):
        assert classify(model, english, ["很a"])
    monkeypatch.setattr("qkv.train.training_data.UNKNOWN_SHARE", -1.0)
    assert ("why.unknown", {"share": "0%"}) in [tuple(each) for each in begin(runs_folder, tmp_path / "run").why]


def test_only_the_head_is_new(runs_folder, tmp_path):
    run = begin(runs_folder, tmp_path / "run", steps=1)
    base, _ = load(runs_folder / "base")
    old, new = dict(base.named_parameters()), dict(run.model.named_parameters())
    shared = [name for name in new if not name.startswith(("head", "pooler"))]
    assert len(shared) > 10 and all(torch.equal(old[name], new[name]) for name in shared)
    again = runs.start(
        "classify", out=tmp_path / "again", base=str(runs_folder / "run"), pairs=str(runs_folder / "reviews.tsv")
    )
    taught, _ = load(runs_folder / "run")
    pairs = zip(again.model.parameters(), taught.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs), "a classifier of the same labels keeps its head"


WRONG = {
    "one class": ("a\tx\nb\tx\n", "have one label, 'x'"),
    "three columns": ("a\tx\nb\ty\tz\n", "line 2 of wrong.tsv has 3 columns, not 2"),
    "one column": ("a\tx\nb\n", "line 2 of wrong.tsv has 1 column, not 2"),
    "an empty label": ("a\tx\nb\t\n", "line 2 of wrong.tsv has an empty text or label"),
    "the columns changed round": ("".join(f"x\ttext {i}\n" for i in range(30)), "the label is the second column"),
    "nothing": ("\n", "wrong.tsv has no lines"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_unusable_pairs_are_refused_and_leave_no_files(wrong, runs_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content, message = WRONG[wrong]
    (tmp_path / "wrong.tsv").write_text(content)
    assert main(["train", "classify", "--from", str(runs_folder / "base"), "--pairs", "wrong.tsv"]) == 2
    assert message in capsys.readouterr().err and [path.name for path in tmp_path.iterdir()] == ["wrong.tsv"]


@pytest.mark.parametrize(
    "options", [["--pairs", "reviews.tsv"], ["--from", "base"], ["--from", "base", "--text", "book.txt"]]
)
def test_missing_options_are_named(options, runs_folder, monkeypatch, capsys):
    monkeypatch.chdir(runs_folder)
    assert main(["train", "classify", *options]) == 2
    assert "--pairs reviews.tsv --from minilm" in capsys.readouterr().err


def test_commands_that_need_another_head_refuse(runs_folder, capsys):
    assert main(["fill", "good [MASK]", "--model", str(runs_folder / "run")]) == 2
    assert main(["classify", "good", "--model", str(runs_folder / "base")]) == 2
    err = capsys.readouterr().err
    assert "doesn't fill in words" in err and "is not a classifier" in err


def test_long_texts_are_cut_with_a_notice(runs_folder, tmp_path, capsys):
    (tmp_path / "long.tsv").write_text("good film " * 9 + "\tpos\nbad\tneg\nawful\tneg\n" + "fine\tpos\n" * 9)
    options = [
        "train",
        "classify",
        "--from",
        str(runs_folder / "base"),
        "--pairs",
        str(tmp_path / "long.tsv"),
        "--steps",
        "1",
    ]
    assert main([*options, "--out", str(tmp_path / "run")]) == 0
    assert "longer than 32 tokens" in capsys.readouterr().out


def test_it_is_exported_as_transformers_has_it(runs_folder, tmp_path, capsys):
    import transformers as hf

    assert main(["export", str(runs_folder / "run"), "--out", str(tmp_path / "hf")]) == 0
    assert "AutoModelForSequenceClassification" in capsys.readouterr().out
    model = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    ours, tokenizer = load(runs_folder / "run")
    ids = torch.tensor([tokenizer.encode("good film")])
    assert torch.allclose(model(ids).logits, ours(ids), atol=1e-5) and model.config.id2label == {0: "neg", 1: "pos"}
