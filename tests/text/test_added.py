"""Added tokens keep the ids in their file, special or not, in the vocabulary or not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from qkv import text
from qkv.i18n import Problem

WORDS = ["a", "b", "c", "the", "cat", "▁the", "▁"]
NAMES = ["<x>", "<pad>", "newword", "cat", "▁the", "[SEP]", "zz"]


def library(kind, added):
    """Return a library tokenizer with added tokens (name, is_special)."""
    if kind == "unigram":
        tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *((word, -float(i)) for i, word in enumerate(WORDS))], 0))
    elif kind == "bpe":
        tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(["<unk>", *WORDS])}, [], unk_token="<unk>"))
    else:
        tokenizer = Tokenizer(
            models.WordLevel({word: i for i, word in enumerate(["<unk>", *WORDS])}, unk_token="<unk>")
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_tokens([AddedToken(name, special=special, normalized=False) for name, special in added])
    return tokenizer


@pytest.mark.parametrize("kind", ["unigram", "bpe", "words"])
@given(
    added=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), unique_by=lambda pair: pair[0]),
    words=st.lists(st.sampled_from([*NAMES, "the", "cat", "abc", " "]), max_size=6),
)
def test_ids_are_those_of_transformers(kind, added, words, tmp_path_factory):
    reference, folder = library(kind, added), tmp_path_factory.mktemp("added")
    reference.save(str(folder / "tokenizer.json"))
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    ours = text.load(folder)
    special = {name for name, is_special in added if is_special}
    plain = " ".join(word for word in words if word not in special)
    for sample in (plain, plain.replace(" ", "")):
        if not any(name in sample for name in special):
            expected = theirs(sample, add_special_tokens=False)["input_ids"]
            assert ours.encode(sample) == expected == ours.encode_batch([sample])[0]
    expected = theirs(" ".join(words), add_special_tokens=False)["input_ids"]
    assert ours.encode(" ".join(words), special=True) == expected


def test_an_unexpected_id_is_refused(tmp_path):
    saved = json.loads(library("unigram", [("<x>", True), ("newword", False)]).to_str())
    saved["added_tokens"][1]["id"] += 3
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(Problem, match="newword"):
        text.load(tmp_path)
