"""Maps in a terminal: exact numbers, hatched masked cells, aligned wide characters."""

import re

import numpy as np
import pytest

from qkv.draw.terminal_map import HIDDEN, SHADES, colours, heatmap, together
from qkv.terminal import text_grid

WEIGHTS = np.array([[1, 0, 0], [0.3, 0.7, 0], [0.123, 0.456, 0.421]])
WORDS = ["我", "cat", "🙂"]
plain = re.compile(r"\x1b\[[0-9;]*m")


def cells(text):
    return [line.split()[1:] for line in text.splitlines()[-3:]]


@pytest.mark.parametrize("colour", ["none", "256", "true"])
def test_numbers_are_the_weights(colour):
    text = plain.sub("", heatmap(WEIGHTS, WORDS, WORDS, colour=colour, columns=80))
    assert cells(text) == [["1.0", "·", "·"], [".30", ".70", "·"], [".12", ".46", ".42"]]


def test_hidden_pairs_are_hatched_and_not_numbers():
    text = heatmap(WEIGHTS, WORDS, WORDS, allowed=np.tril(np.ones((3, 3), bool)), colour="none", columns=80)
    assert cells(text) == [["1.0", HIDDEN, HIDDEN], [".30", ".70", HIDDEN], [".12", ".46", ".42"]]


def test_columns_stand_under_their_words():
    text = plain.sub("", heatmap(np.eye(4), list("一二三四"), list("一二三四"), colour="true", columns=80))
    header, *rows = text.splitlines()
    for i, row in enumerate(rows):
        before = row[: row.index("1.0")]
        assert (
            text_grid.width(before)
            <= text_grid.width(header[: header.index("一二三四"[i])])
            <= text_grid.width(before) + 2
        )


def test_narrow_terminals_join_neighbours():
    table = np.random.default_rng(0).dirichlet(np.ones(200), size=3)
    text = heatmap(table, ["a", "b", "c"], [""] * 200, colour="none", columns=60)
    assert max(map(text_grid.width, text.splitlines())) <= 60
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize("columns", range(8, 130, 7))
@pytest.mark.parametrize("keys", [1, 7, 24, 63])
def test_joined_columns_are_sums_of_together_keys(columns, keys):
    """Every cell of a narrow map shows the sum of `together` keys."""
    table = np.random.default_rng(keys).dirichlet(np.full(keys, 0.1), size=2)
    rows = heatmap(table, ["a", "b"], [""] * keys, colour="none", columns=columns).splitlines()
    size = together(keys, ["a", "b"], columns)
    assert size == 1 or max(map(text_grid.width, rows)) <= max(columns, 6)
    if size == 1:
        return
    sums = np.stack([table[:, i : i + size].sum(1) for i in range(0, keys, size)], 1)
    assert np.allclose(sums.sum(1), 1)
    for row, line in zip(sums, rows, strict=True):
        expected = "".join(SHADES[min(int(share**0.5 * 5), 4)] * 2 for share in row)
        assert line[4:].ljust(2 * len(row)) == expected


def test_the_mark_points_at_its_row():
    lines = heatmap(WEIGHTS, WORDS, WORDS, mark=(1, 0), colour="none", columns=80).splitlines()
    assert [line[0] for line in lines[-3:]] == [" ", "▸", " "]


def test_colour_follows_the_terminal(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert colours() == "none"  # a pipe
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert colours() == "true"
    monkeypatch.delenv("COLORTERM")
    assert colours() == "256"
    monkeypatch.setenv("NO_COLOR", "1")
    assert colours() == "none"


def test_stronger_weights_are_darker():
    from qkv.draw.terminal_map import _ink

    brightness = [sum(_ink(w)) for w in np.linspace(0, 1, 50)]
    assert brightness == sorted(brightness, reverse=True) and brightness[0] - brightness[-1] > 500


@pytest.mark.parametrize("colour", ["none", "256", "true"])
def test_special_tokens_are_dimmed_and_stay_in_their_columns(colour):
    dim = re.compile(r"\x1b\[2m(.*?)\x1b\[0m")
    words = ["[CLS]", "cat", "</s>"]
    undimmed = heatmap(WEIGHTS, words, words, colour=colour, columns=80)
    text = heatmap(WEIGHTS, words, words, special=([True, False, True], [True, False, True]), colour=colour, columns=80)
    assert plain.sub("", text) == plain.sub("", undimmed)
    rows, header = [line for line in text.splitlines() if "[48;" in line], text.splitlines()[:5]
    if colour == "none":
        assert not dim.search(text)
    else:
        assert [dim.findall(row.split("\x1b[48;")[0]) for row in rows] == [["[CLS]"], [], [" </s>"]]
        assert "".join(c.strip() for line in header for c in dim.findall(line)[:1]) == "[CLS]"
        assert not any(dim.search(line) for line in undimmed.splitlines())
