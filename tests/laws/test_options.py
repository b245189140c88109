"""Properties of the options of every verb."""

import argparse
import importlib
from pathlib import Path

import pytest

from qkv import cli
from qkv.cli import MAY_BE_EMPTY, VERBS, main

OLD = Path(__file__).parents[1] / "fixtures" / "2026-11"


def parsers(verb):
    """Yield (words of the command, parser) of a verb and of each subcommand."""
    command = importlib.import_module(f"qkv.commands.{verb}")
    parser = cli._parser(verb, command.EXAMPLES)
    command.arguments(parser)
    yield [verb], parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, own in action.choices.items():
                yield [verb, name], own


def takes_text(action):
    return action.option_strings and action.nargs != 0 and action.choices is None and action.type in (None, str, Path)


TEXT_OPTIONS = [
    (*words, action.option_strings[-1])
    for verb in VERBS
    for words, parser in parsers(verb)
    for action in parser._actions
    if takes_text(action)
]


@pytest.mark.parametrize("words", TEXT_OPTIONS, ids=" ".join)
@pytest.mark.parametrize("form", ["apart", "joined"])
def test_empty_option_values_are_errors(words, form, tmp_path, monkeypatch, capsys):
    *verb, option = words
    if option in MAY_BE_EMPTY:
        return
    (tmp_path / "mine.txt").write_text("the cat sat on the mat. " * 2000)
    monkeypatch.chdir(tmp_path)
    assert main([*verb, option, ""] if form == "apart" else [*verb, f"{option}="]) == 2
    out, err = capsys.readouterr()
    assert err == f"qkv: {option} is empty: give it a value, or leave it out\n" and not out
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "words",
    [
        ["export", ""],
        ["data", "prepare", "", "--out", "made"],
        ["models", "show", ""],
        ["models", "get", ""],
        ["check", ""],
    ],
    ids=" ".join,
)
def test_empty_names_are_errors(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.txt").write_text("the cat sat on the mat. " * 2000)
    (tmp_path / "mine.py").write_text("def attention(q, k, v): return q\n")
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert err.startswith("qkv: ") and not out and "bug" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "mine.txt"]


WRONG = {
    "generate": {
        "--temperature": ["-1", "nan", "inf"],
        "--top-k": ["0"],
        "--top-p": ["0", "1.5", "nan"],
        "--repetition-penalty": ["0", "nan"],
        "--most": ["0"],
        "--seed": [str(2**64)],
    },
    "chat": {"--temperature": ["-1"], "--top-p": ["2"], "--most": ["0"], "--seed": [str(2**64)]},
    "translate": {"--beam": ["0"], "--most": ["0"]},
    "fill": {"--top": ["0"]},
    "eval": {"--context": ["0"], "--stride": ["0", "-3"], "--beam": ["0"], "--most": ["0"]},
}
CASES = [
    (verb, option, value) for verb, options in WRONG.items() for option, values in options.items() for value in values
]


def test_the_table_of_wrong_values_has_every_option_that_takes_a_number():
    for verb, options in WRONG.items():
        [(_, parser)] = parsers(verb)
        numbers = {action.option_strings[-1] for action in parser._actions if action.type in (int, float)}
        assert options.keys() == numbers


@pytest.mark.parametrize(("verb", "option", "value"), CASES, ids=str)
@pytest.mark.parametrize("model", ["that is there", "that is not"])
def test_settings_are_checked_before_anything_is_loaded_or_printed(verb, option, value, model, capsys):
    there = {"generate": OLD / "lm", "fill": OLD / "mlm", "translate": OLD / "translate", "eval": OLD / "lm"}.get(
        verb, "nowhere"
    )
    name = str(there) if model == "that is there" else "nowhere"
    assert main([verb, "the cat [MASK]", "--model", name, option, value]) == 2
    out, err = capsys.readouterr()
    assert not out and value in err.replace("1.8", "") and "nowhere" not in err
