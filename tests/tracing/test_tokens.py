"""Tokens as people read them."""

import pytest

from qkv.text import Bytes
from qkv.tracing.tokens import Tokens, read, show


def test_bytes_join_to_whole_characters_and_words():
    text = "我爱GPT, don't 🙂 go\n"
    ids = Bytes.make().encode(text)
    tokens = read(Bytes.make(), ids)
    assert "".join(piece for piece, _, _ in tokens.whole) == text
    assert [word for word, _, _ in tokens.words] == ["我", "爱", "GPT", ",", "don't", "🙂", "go", "⏎"]
    covered = [i for _, first, end in tokens.words for i in range(first, end)]
    assert covered == list(range(len(ids)))


def test_words_begin_at_spaces_and_special_tokens_stand_alone():
    tokens = Tokens(("[CLS]", "The", " cat", "s", " sat", ".", "[SEP]"), (True, *[False] * 5, True))
    assert [word for word, _, _ in tokens.words] == ["[CLS]", "The", "cats", "sat", ".", "[SEP]"]


@pytest.mark.parametrize(("word", "place"), [("sat", 4), ("cats", 3), ("cat", 2), ("The", 1), ("0", 0), ("-1", 6)])
def test_finding(word, place):
    tokens = Tokens(("[CLS]", "The", " cat", "s", " sat", ".", "[SEP]"), (True, *[False] * 5, True))
    assert tokens.find(word) == place


def test_a_word_that_comes_twice_is_asked_about():
    tokens = Tokens(("the", " cat", " and", " the", " dog"))
    assert tokens.find("the#1") == 0 and tokens.find("the#2") == 3
    for asked in ("the", "the#3"):
        with pytest.raises(ValueError, match="occurs 2 times, at 0, 3"):
            tokens.find(asked)
    with pytest.raises(ValueError, match="near ones: dog"):
        tokens.find("dig")


def test_spaces_and_line_ends_are_seen():
    assert [show(p) for p in (" a", "\n", "\t", "   ")] == ["a", "⏎", "⇥", "␣␣␣"]
