"""Tokens as people read them."""

import re

import pytest

from qkv.i18n import Notice
from qkv.text import Bytes
from qkv.tracing.record.tokenizer_protocol import reader_of
from qkv.tracing.views.token_labels import NoSuchToken, Tokens, show


def test_bytes_join_to_whole_characters_and_words():
    text = "我爱GPT, don't 🙂 go\n"
    ids = Bytes.make().encode(text)
    tokens = reader_of(Bytes.make()).tokens(ids)
    assert "".join(piece for piece, _, _ in tokens.whole) == text
    assert [word for word, _, _ in tokens.words] == ["我", "爱", "GPT", ",", "don't", "🙂", "go", "⏎"]
    covered = [i for _, first, end in tokens.words for i in range(first, end)]
    assert covered == list(range(len(ids)))


def test_words_begin_at_spaces_and_special_tokens_stand_alone():
    tokens = Tokens(("[CLS]", "The", " cat", "s", " sat", ".", "[SEP]"), (True, *[False] * 5, True))
    assert [word for word, _, _ in tokens.words] == ["[CLS]", "The", "cats", "sat", ".", "[SEP]"]


@pytest.mark.parametrize(("word", "index"), [("sat", 4), ("cats", 3), ("cat", 2), ("The", 1), ("0", 0), ("-1", 6)])
def test_finding(word, index):
    tokens = Tokens(("[CLS]", "The", " cat", "s", " sat", ".", "[SEP]"), (True, *[False] * 5, True))
    assert tokens.find(word) == index


def test_a_word_that_occurs_twice_is_ambiguous():
    tokens = Tokens(("the", " cat", " and", " the", " dog"))
    assert tokens.find("the#1") == 0 and tokens.find("the#2") == 3
    for word in ("the", "the#3"):
        with pytest.raises(ValueError, match="occurs 2 times, at 0, 3"):
            tokens.find(word)
    with pytest.raises(ValueError, match="near ones: dog"):
        tokens.find("dig")


RIVER = Tokens(  # 岸 is two tokens, 的河 one
    ("<|im_start|>", "小", "的河", "<E5><B2>", "<B8>", "有一", " the", " cat", "’s"),
    (True, *[False] * 8),
    whole=(
        ("<|im_start|>", 0, 1),
        ("小", 1, 2),
        ("的河", 2, 3),
        ("岸", 3, 5),
        ("有一", 5, 6),
        (" the", 6, 7),
        (" cat", 7, 8),
        ("’s", 8, 9),
    ),
)


@pytest.mark.parametrize(
    ("word", "indices"),
    [("岸", [4]), ("岸₁", [3]), ("岸₂", [4]), ("<B8>", [4]), ("河岸", [4]), ("cat’s", [8]), ("的河", [2])],
)
def test_a_word_is_located_by_every_label(word, indices, recwarn):
    assert RIVER.places(word) == indices and RIVER.find(word) == indices[0]
    assert [str(each.message) for each in recwarn if word != "河岸"] == []


@pytest.mark.parametrize(("word", "index", "token"), [("河", 2, "的河"), ("一", 5, "有一"), ("一 the", 6, "the")])
def test_part_of_a_token_names_the_token_with_a_notice(word, index, token):
    with pytest.warns(Notice, match=rf"^{word} is not a token by itself; used instead: {index} \({token}\)$") as caught:
        assert RIVER.find(word) == index
    assert caught[0].message.say("zh") == f"{word} 不是单独的词元，改用：{index} ({token})"


def test_part_of_a_word_is_only_offered():
    for word, near in (("at", "cat"), ("im_start", "<|im_start|>")):
        with pytest.raises(NoSuchToken, match=f"near ones: {re.escape(near)}"):
            RIVER.find(word)


def test_part_of_several_tokens_is_ambiguous():
    tokens = Tokens(("小河", "大河", "长河"))
    with pytest.warns(Notice), pytest.raises(ValueError, match="河 occurs 3 times, at 0, 1, 2"):
        tokens.find("河")
    with pytest.warns(Notice, match=r"used instead: 1 \(大河\)$"):
        assert tokens.find("河#2") == 1


def test_spaces_and_line_ends_are_visible():
    assert [show(p) for p in (" a", "\n", "\t", "   ")] == ["a", "⏎", "⇥", "␣␣␣"]


def test_invisible_characters_are_labelled_by_number():
    tokens = Tokens(("👨", "\u200d", "👩", " \u0301"))
    assert tokens.shown == ["👨", "U+200D", "👩", "U+0301"]
    assert tokens.find("👨\u200d👩") == 2


def test_parts_of_a_character_are_numbered():
    tokens = reader_of(Bytes.make()).tokens(Bytes.make().encode("a我"))
    assert tokens.numbered == ["a", "我₁", "我₂", "我₃"] and tokens.shown[1:] == ["<E6>", "<88>", "<91>"]


def test_a_tokenizer_of_transformers_is_read_once_and_again_when_it_changed(monkeypatch):
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    copies = []
    monkeypatch.setattr("qkv.text.tokenizer.Tokenizer.__init__", _counting(copies))
    theirs = PreTrainedTokenizerFast(tokenizer_object=Bytes.make().library)
    copies.clear()
    assert reader_of(theirs).tokens([97, 230, 136, 145]).numbered == ["a", "我₁", "我₂", "我₃"]
    assert len(copies) == 1
    reader_of(theirs).tokens([98])
    assert len(copies) == 1
    theirs.add_tokens([AddedToken("我们")])
    assert reader_of(theirs).tokens([97, 256]).shown == ["a", "我们"] and len(copies) == 2
    theirs.add_special_tokens({"eos_token": "[END]"})
    tokens = reader_of(theirs).tokens([97, 257])
    assert tokens.shown == ["a", "[END]"] and tokens.special == (False, True)


def _counting(copies):
    from qkv.text.tokenizer import Tokenizer

    original = Tokenizer.__init__

    def init(self, *arguments, **options):
        copies.append(self)
        original(self, *arguments, **options)

    return init
