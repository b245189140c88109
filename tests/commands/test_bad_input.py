"""Bad inputs for every verb: each gets one sentence and exit code 2, and none is reported as a bug in qkv."""

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qkv import cli
from qkv.cli import VERBS, main

OLD = Path(__file__).parents[1] / "fixtures" / "2026-11"
LM, MLM, PAIRS = (str(OLD / name) for name in ("lm", "mlm", "translate"))
DIGITS = "9" * 5000  # int() and json refuse more than 4,300


def parsers(verb):
    """(words that lead to it, parser) of a verb, or of each experiment of lab."""
    command = importlib.import_module(f"qkv.commands.{verb}")
    parser = cli._parser(verb, command.EXAMPLES)
    command.arguments(parser)
    parser_tables = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [([verb, name], inner_parser) for names in parser_tables for name, inner_parser in names.items()] or [
        ([verb], parser)
    ]


def number_options():
    """Every option that takes numbers, as words for the command line."""
    for verb in VERBS:
        for words, parser in parsers(verb):
            for action in parser._actions:
                takes_numbers = action.type in (int, float) or (verb == "lab" and action.metavar in ("N", "N,N,…", "X"))
                if action.option_strings and takes_numbers:
                    yield [*words, action.option_strings[-1]]


def error_message(arguments, capsys):
    """What was said; the arguments must be refused in one sentence."""
    code = main(list(arguments))
    err = capsys.readouterr().err
    assert "bug in qkv" not in err, err
    assert code == 2 and err.startswith("qkv: ") and "Traceback" not in err, (code, err)
    return err


@pytest.mark.parametrize("words", list(number_options()), ids=" ".join)
def test_what_is_not_a_number(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for value in ("x", "", "1e9x", "½", "0x10", "\udcff", "a\nb", "--"):
        error_message([*words[:-1], f"{words[-1]}={value}"], capsys)
    assert not any(tmp_path.iterdir())


FILES = {
    "book.txt": b"the cat sat on the mat. " * 400,
    "bad.txt": b"\xff\xfe\x00abc\n" * 50,
    "empty.txt": b"",
    "pairs.tsv": b"a b\tx\nc d\ty\n" * 20,
    "deep.json": b"[" * 100_000,
}
TRAIN = ["train", "lm", "--text", "book.txt"]
MISTAKES = [
    *(["steps", "a b", "--mask", mask] for mask in ("x", "window:x", f"window:{DIGITS}", "padding:", "(", "causal(")),
    *(["masks", mask] for mask in ("prefix:-1", f"prefix:{DIGITS}", "window:1.5", "causal:3", "&", "a b", "\udcff")),
    *(["steps", "--file", file] for file in ("bad.txt", "empty.txt", "deep.json", "nothing.json", "folder")),
    *(["steps", "a", option, "0"] for option in ("--heads", "--dim", "--tiles")),
    ["steps", "a", "--seed", "-1"],
    ["steps", "a", "--seed", str(-(2**70))],
    ["steps", "the cat", "--model", LM, "--layer", "99"],
    ["steps", "the cat", "--model", LM, "--head", str(2**70)],
    ["steps", "the cat", "--model", LM, "--word", "zebra"],
    ["steps", "a b", "--mixer", "x"],
    ["steps", "a b", "--mixer", "retention", "--decay", "nan"],
    *(["learn", word] for word in ("0", "99", DIGITS, "nothing", "\udcff", "-1")),
    *(["learn", what, DIGITS] for what in ("check", "hint", "solution", "reset")),
    ["check", "nothing.py"],
    ["check", "book.txt:x", "--heads", "0"],
    ["check", "book.txt", "--seconds", "nan"],
    ["check", "book.txt", "--args", "["],
    ["check", "book.txt", "--call", "q=1"],
    *([*TRAIN, "--set", f"{name}={DIGITS}"] for name in ("n_layer", "width", "lr", "eval_batches", "position", "x")),
    *([*TRAIN, "--set", text] for text in ("n_layer", "=", "n_layer=", "width=0", "width=-8", "width=1e400", "x=1")),
    *([*TRAIN, "--set", text] for text in ("n_layer=[" + "[" * 100_000, "dropout=NaN", "norm={}", "vocab=5")),
    *([*TRAIN, option, "9" * 400] for option in ("--steps", "--batch", "--seed")),
    *([*TRAIN, "--set", f"{name}={'9' * 400}"] for name in ("clip", "weight_decay", "lr", "adam_lr", "width")),
    ["generate", "the cat", "--model", LM, "--most", "9" * 400],
    *([*TRAIN, "--set", text] for text in (f"eval_batches={2**64}", "precision=x", "patience=0", "pattern=?")),
    *([*TRAIN, option, "0"] for option in ("--steps", "--batch", "--context", "--eval-every", "--checkpoint-every")),
    *([*TRAIN, option, "-1"] for option in ("--steps", "--batch", "--seed", "--lora", "--lr")),
    [*TRAIN, "--lr", "nan"],
    [*TRAIN, "--preset", "huge"],
    [*TRAIN, "--from", "nothing"],
    [*TRAIN, "--tokenizer", "x"],
    *(["train", "lm", "--text", text] for text in ("bad.txt", "empty.txt", "nothing.txt", "folder", "*.nothing")),
    *(["train", "translate", "--pairs", pairs] for pairs in ("bad.txt", "empty.txt", "nothing.tsv", "folder")),
    ["train", "classify", "--pairs", "pairs.tsv", "--from", "nothing"],
    *(["train", "--resume", run] for run in ("nothing", "folder", "book.txt")),
    *([verb, "the cat", "--model", name] for verb in ("generate", "fill", "see") for name in ("nothing", "folder")),
    *([verb, "the cat", "--model", "empty.txt"] for verb in ("generate", "importance", "steps")),
    *(["generate", "the", "--model", LM, option, "0"] for option in ("--most", "--top-k", "--top-p")),
    *(["generate", "the", "--model", LM, "--temperature", value] for value in ("-1", "nan", "inf")),
    ["generate", "the", "--model", LM, "--seed", str(2**70)],
    ["generate", "the\udcff", "--model", LM],
    *(
        [verb, "--file", file, "--model", LM]
        for verb in ("generate", "see")
        for file in ("bad.txt", "nothing", "folder")
    ),
    ["generate", "a", "--model", MLM],
    ["fill", "no gap", "--model", MLM],
    ["fill", "a [MASK]", "--model", LM],
    ["chat", "hello", "--model", LM],
    ["chat", "hello", "--model", "nothing"],
    ["translate", "not a date", "--demo"],
    ["translate", "a", "--model", LM],
    ["translate", "a", "--model", PAIRS, "--beam", "-1"],
    ["classify", "a", "--model", MLM],
    ["classify", "a", "--model", "nothing"],
    *(["caption", picture, "--demo"] for picture in ("book.txt", "nothing.png", "folder", "empty.txt")),
    *(["caption", "--demo", option, value] for option in ("--layer", "--head") for value in ("-1", "99", str(2**70))),
    *(["eval", "--model", LM, "--text", text] for text in ("bad.txt", "empty.txt", "nothing.txt", "folder")),
    *(["eval", "--model", PAIRS, "--pairs", pairs] for pairs in ("bad.txt", "empty.txt", "nothing.tsv", "folder")),
    ["eval", "--model", LM, "--pairs", "pairs.tsv"],
    ["eval", "--model", MLM, "--text", "book.txt"],
    ["export", "nothing"],
    ["export", LM, "--to", "onnx"],
    ["export", LM, "--out", "book.txt"],
    *(["models", what, "nothing"] for what in ("get", "show", "why", "verify", "remove")),
    *(["data", what, "nothing"] for what in ("get", "remove", "prepare")),
    ["data", "prepare", "book.txt", "--out", "tokens", "--tokenizer", "bpe", "--vocab", "1"],
    ["data", "prepare", "bad.txt", "--out", "tokens"],
    ["see", "the cat", "--model", LM, "--layer", "99"],
    ["see", "the cat", "--model", LM, "--head", str(-(2**70))],
    ["see", "the cat", "--model", LM, "--from", "zebra"],
    ["see", "the cat", "--model", LM, "--without", "x"],
    ["see", "the cat", "--model", LM, "--without", f"{DIGITS}.0"],
    ["see", "the cat", "--model", LM, "--part", "cross"],
    ["see", "the cat", "--model", LM, "--png", "map.txt"],
    ["see", "--trace", "book.txt"],
    ["see", "--trace", "nothing.safetensors"],
    ["see", "--model", LM, "--syntax", "bad.txt"],
    ["importance", "the cat sat", "--model", LM, "--top", "0"],
    ["importance", "the cat sat", "--model", LM, "--keep", "folder"],
    ["importance", "the cat sat", "--model", LM, "--keep", "book.txt"],
    ["lab", "nothing"],
    ["lab", "scaling", "--widths", f"1,{DIGITS}"],
    ["lab", "memory", "--model", "nothing"],
    ["lab", "seq2seq", "--date", "not a date"],
    ["studio", "nothing"],
    ["studio", "--port", "65536"],
    ["studio", "--host", "example.com"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    (path / "folder").mkdir()
    return path


def case_name(arguments):
    return " ".join(word if len(word) < 40 else f"{word[:12]}…" for word in arguments).replace(str(OLD), "")


@pytest.mark.parametrize("arguments", MISTAKES, ids=case_name)
def test_a_mistake_gives_a_single_sentence(arguments, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("QKV_HOME", str(folder / "cache"))
    error_message(arguments, capsys)
    assert not (folder / "runs").exists()


# Mistakes that need nothing heavy to be seen.
AT_ONCE = [
    *([verb, "the cat", "--model", "nothing"] for verb in ("generate", "chat", "fill", "translate", "classify")),
    *([verb, "the cat", "--model", "nothing"] for verb in ("see", "steps", "importance", "eval")),
    *([verb, "the cat"] for verb in ("generate", "fill", "translate", "classify", "importance", "eval")),
    *([verb, "the cat", "--modell", LM] for verb in VERBS if verb not in ("lab", "studio")),
    *([verb, "--text", "nothing.txt", "--model", LM] for verb in ("generate", "fill", "translate", "classify", "see")),
    *([verb, "--text", "nothing.txt", "--model", LM] for verb in ("importance", "eval", "steps")),
    ["generate", "the cat", "--model", LM, "--temperature", "-1"],
    ["generate", "the cat", "--model", LM, "--seed", str(2**64)],
    ["see", "--watch", "--model", "nothing"],
    ["see", "--trace", "nothing.safetensors"],
    ["eval", "--model", PAIRS, "--pairs", "nothing.tsv"],
    ["eval", "--model", LM, "--text", "book.txt", "--stride", "0"],
    ["caption", "--model", LM],
    ["caption", "nothing.png", "--demo"],
    ["export", "nothing"],
    *(["models", what, "nothing"] for what in ("get", "show", "why", "verify", "remove")),
    *(["data", what, "nothing"] for what in ("get", "remove")),
    ["data", "prepare", "nothing.txt", "--out", "tokens"],
    ["train", "gpt"],
    ["train", "lm"],
    [*TRAIN, "--preset", "huge"],
    [*TRAIN, "--set", "width=0"],
    [*TRAIN, "--set", "no_such=1"],
    [*TRAIN, "--steps", "0"],
    [*TRAIN, "--from", "nothing"],
    ["train", "lm", "--text", "nothing.txt"],
    ["train", "translate", "--pairs", "nothing.tsv"],
    ["train", "--resume", "nothing"],
    ["lab", "nothing"],
    ["lab", "scaling", "--widths", "0"],
    ["studio", "nothing"],
    ["learn", "99"],
]
WITHOUT_TORCH = """
import contextlib, io, json, sys
sys.modules["torch"] = None  # whoever imports it fails
from qkv.cli import main
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(arguments)
    print(json.dumps([arguments, code, err.getvalue()]))
"""


def test_mistakes_are_reported_before_torch_is_loaded(folder):
    """Loading it takes 1.6 s of a processor, for nothing."""
    env = os.environ | {"QKV_HOME": str(folder / "cache"), "QKV_LANG": "en"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, json.dumps(AT_ONCE)], cwd=folder, env=env, capture_output=True, text=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [arguments for arguments, _, _ in answers] == AT_ONCE, done.stderr
    late = [(arguments, err) for arguments, code, err in answers if code != 2 or "bug in qkv" in err]
    assert not late


READS_A_TEXT = {verb: (LM, "the cat sat") for verb in ("generate", "see", "steps", "importance", "eval")}
READS_A_TEXT |= {"fill": (MLM, "the [MASK] sat"), "translate": (PAIRS, "15 Nov 2026")}


@pytest.mark.parametrize("verb", READS_A_TEXT)
def test_text_is_a_file_in_every_verb(verb, folder, capsys, monkeypatch):
    """A sentence after --text is not taken for a text, and a positional text that names a file is, with a hint."""
    monkeypatch.chdir(folder)
    name, text = READS_A_TEXT[verb]
    model = ["--model", name]
    (folder / "short.txt").write_text(text + "\n", encoding="utf-8")
    assert "give a text without --text" in error_message([verb, "--text", "the cat sat", *model], capsys)
    assert main([verb, "--text", "short.txt", *model]) == 0
    out, err = capsys.readouterr()
    assert out and "short.txt" not in out.replace("on short.txt:", "") and "is the name of a file" not in err
    main([verb, "short.txt", *model])
    assert "short.txt is the name of a file, " in capsys.readouterr().err


def test_an_option_text_always_means_a_file():
    for verb in VERBS:
        for words, parser in parsers(verb):
            for action in parser._actions:
                if "--text" in action.option_strings:
                    assert action.metavar in ("FILE", "WHAT"), words


@pytest.mark.parametrize(("lang", "phrase"), [("en", "from 0"), ("zh", "从 0 ")])
def test_layer_and_head_numbers_count_from_0(lang, phrase, capsys):
    for words in (["see", "the cat"], ["steps", "the cat"], ["importance", "the cat"]):
        assert main([*words, "--model", LM, "--lang", lang]) == 0
        assert phrase in capsys.readouterr().out, words
    for verb in VERBS:
        [(_, parser), *_] = parsers(verb)
        for action in parser._actions:
            if {"--layer", "--head", "--without"} & {*action.option_strings}:
                assert phrase in action.help, (verb, action.option_strings)
