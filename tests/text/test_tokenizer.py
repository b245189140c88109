"""Laws of all tokenizers: texts round-trip, `transformers` reads the files, plain text has no special tokens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from qkv.i18n import Problem
from qkv.text import BPE, Bytes, Characters, Tokenizer, load, train_tokenizer
from qkv.text.library_tokenizer import BYTES, LETTERS

BOOK = [
    "ROMEO:\nBut, soft! what light through yonder window breaks?\n\n  It is the east, and Juliet is the sun.\n",
    "人工智能让机器理解语言。我喜欢玩人工智能。\n春眠不觉晓，处处闻啼鸟。\n",
    "naïve café — 12,345 €; it's 🙂👩‍💻\t\u3000[MASK] is text here, [EOS] and [PAD] too\r\n",
]
ALPHABET = sorted(set("".join(BOOK)))
KINDS = ["characters", "bytes", "bpe"]
SPECIAL = ("pad", "bos", "eos", "mask", "unk")


def tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer(kind, BOOK, vocab=400 if kind == "bpe" else None, special=SPECIAL)


TOKENIZERS = {kind: tokenizer(kind) for kind in KINDS}
any_text = st.text(max_size=80)
own_text = st.text(alphabet=ALPHABET, max_size=80)
pasted = st.lists(st.sampled_from([*BOOK, "[EOS]", "[PAD]", "'s", "  ", "\n"]), max_size=4).map("".join)


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
@given(text=any_text | pasted)
def test_any_unicode_text_round_trips(kind, text):
    assert TOKENIZERS[kind].decode(TOKENIZERS[kind].encode(text)) == text


@given(text=own_text | pasted)
def test_characters_round_trip_their_alphabet(text):
    assert TOKENIZERS["characters"].decode(TOKENIZERS["characters"].encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@given(text=own_text | pasted)
def test_all_encoders_give_the_same_ids(kind, text):
    tokens = TOKENIZERS[kind]
    ids = tokens.encode(text)
    assert tokens.library.encode(text).ids == ids, "the library's own road"
    assert tokens.encode_batch([text, "", text]) == [ids, [], ids]
    assert tokens.encode_array([text]).tolist() == ids
    assert all(0 <= i < tokens.vocab for i in ids)


@pytest.mark.parametrize("kind", KINDS)
@given(text=own_text)
def test_streamed_text_is_the_decoded_text(kind, text):
    tokens = TOKENIZERS[kind]
    assert "".join(tokens.stream(tokens.encode(text))) == text


@pytest.mark.parametrize("kind", KINDS)
@given(text=own_text | pasted)
def test_pieces_show_each_token_and_whole_joins_them(kind, text):
    tokens = TOKENIZERS[kind]
    ids = tokens.encode(text)
    assert b"".join(tokens.token_bytes(ids)) == text.encode()
    assert len(tokens.pieces(ids)) == len(ids)
    groups = tokens.whole(ids)
    assert "".join(group for group, _, _ in groups) == text
    assert [i for _, first, end in groups for i in range(first, end)] == list(range(len(ids)))


def test_a_piece_that_is_part_of_a_character_shows_its_bytes():
    tokens = Bytes.make()
    ids = tokens.encode("a人")
    assert tokens.pieces(ids) == ["a", "<E4>", "<BA>", "<BA>"]
    assert tokens.whole(ids) == [("a", 0, 1), ("人", 1, 4)]
    assert tokens.whole(ids[:-1]) == [("a", 0, 1), ("<E4><BA>", 1, 3)], "cut in the middle"
    assert tokens.whole([0x80, 0x61]) == [("<80>", 0, 1), ("a", 1, 2)], "no character begins so"
    assert tokens.decode(ids[:-1]) == "a�"


def test_byte_letters_are_those_of_gpt2():
    assert sorted(BYTES.values()) == list(range(256))
    assert (LETTERS[ord(" ")], LETTERS[ord("\n")], LETTERS[ord("A")], LETTERS[0xAD]) == ("Ġ", "Ċ", "A", "Ń")


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_distinct_and_never_come_from_plain_text(kind):
    tokens = TOKENIZERS[kind]
    ids = [tokens.pad, tokens.bos, tokens.eos, tokens.mask, tokens.unk]
    assert sorted(ids) == tokens.special_ids and len(set(ids)) == 5
    plain = tokens.encode("[MASK] is text")
    assert not set(plain) & set(ids)
    special = tokens.encode("is [MASK] text[EOS]", special=True)
    assert special.count(tokens.mask) == 1 and special[-1] == tokens.eos
    blank = "" if kind == "bpe" else " "  # there it belongs to the hidden word
    assert tokens.decode(special) == f"is{blank} text"
    assert tokens.decode(special, special=True) == f"is{blank}[MASK] text[EOS]"
    assert "[MASK]" in tokens.pieces(special)


def saved_before(tokens: Tokenizer, folder, mask: str = "[MASK]") -> Tokenizer:
    """The same from a file in which the mask takes no blank along, as those written before November 2026 are."""
    for file in (tokens.save(folder), folder / "tokenizer_config.json"):
        text = file.read_text(encoding="utf-8").replace("[MASK]", mask)
        file.write_text(text.replace('"lstrip": true', '"lstrip": false'), encoding="utf-8")
    return load(folder)


@pytest.mark.parametrize("saved", ["today", "before"])
@pytest.mark.parametrize("kind", KINDS)
def test_mask_written_in_place_of_a_word_is_that_words_token(kind, saved, tmp_path):
    """People who mask a word keep the space before it."""
    tokens = TOKENIZERS[kind] if saved == "today" else saved_before(TOKENIZERS[kind], tmp_path)
    text = "It is the east, and it is the sun."
    ids = tokens.encode(text)
    pieces = tokens.pieces(ids)
    assert any(piece.startswith(" ") and piece.strip() for piece in pieces) == (kind == "bpe")
    for at, piece in enumerate(pieces):
        if piece.strip():
            hidden = piece.replace(piece.strip(), "[MASK]")
            written = "".join([*pieces[:at], hidden, *pieces[at + 1 :]])
            assert tokens.encode(written, special=True) == [*ids[:at], tokens.mask, *ids[at + 1 :]], written


MASKED = {
    "beginning": "[MASK] small dog barks",
    "middle": "the small [MASK] barks",
    "end": "the small dog [MASK]",
    "two": "the [MASK] [MASK] barks",
    "after a line end": "the old man\n[MASK] small dog",
    "after a line end and a blank": "the old man\n [MASK] small dog",
    "after two blanks": "the  [MASK] dog",
    "after a tab": "the\t[MASK] dog",
    "before a full stop": "the small [MASK].",
    "Chinese": "我们[MASK]起去[MASK]京。",
    "Chinese beginning": "[MASK]们去北京",
}


@pytest.mark.parametrize("saved", ["today", "before"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_moves_no_other_token(kind, saved, tmp_path):
    """With a word of one token in place of each [MASK], every token is where it was."""
    book = ["the small dog barks. the old man sees the small dog.\t\n"] * 20 + ["我们一起去北京。的"] * 20
    tokenizer = train_tokenizer(kind, book, vocab=330 if kind == "bpe" else None)
    tokens = tokenizer if saved == "today" else saved_before(tokenizer, tmp_path)
    for name, masked in MASKED.items():
        hidden = tokens.encode(masked, special=True)
        assert hidden.count(tokens.mask) == masked.count("[MASK]")
        if kind == "bpe" and "Chinese" in name:  # a run of 汉字 without blanks is cut anew on both sides of the mask
            assert tokens.decode(hidden, special=True) == masked
            continue
        word = "的" if "Chinese" in name and kind == "characters" else "the" if kind == "bpe" else "d"
        true = tokens.encode(masked.replace("[MASK]", word))
        assert [j if i == tokens.mask else i for i, j in zip(hidden, true, strict=True)] == true, name


@pytest.mark.parametrize("kind", KINDS)
def test_guesses_are_put_in_where_their_masks_are(kind):
    tokenizer = train_tokenizer(kind, ["the small dog barks. the walking dog\n"] * 20)
    for masked in (masked for name, masked in MASKED.items() if "Chinese" not in name):
        word = " the" if kind == "bpe" else "d"
        filled = masked
        for _ in range(masked.count("[MASK]")):
            filled = tokenizer.put_in(filled, word)
        if kind == "bpe":
            expected = masked.replace(" [MASK]", "[MASK]").replace("[MASK]", word)
            assert filled == (expected[1:] if masked.startswith("[MASK]") else expected)
        else:
            assert filled == masked.replace("[MASK]", word)


def test_a_guess_is_put_in_with_the_blank_that_its_token_holds():
    tokenizer = train_tokenizer("bpe", ["the small dog barks. the walking dog"] * 20, vocab=330)
    assert tokenizer.put_in("the small [MASK] barks", " dog") == "the small dog barks"
    assert tokenizer.put_in("the walk [MASK] dog", "ing") == "the walking dog"
    assert tokenizer.put_in("[MASK] dog", " the") == "the dog"


def test_a_mask_with_another_name_is_read(tmp_path):
    """Another project's tokenizer gives the ids that the library gives."""
    tokens = saved_before(TOKENIZERS["bpe"], tmp_path, mask="<mask>")
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert tokens.mask == theirs.mask_token_id
    ids = tokens.encode("is <mask> text", special=True)
    assert ids == theirs("is <mask> text")["input_ids"]
    assert tokens.decode(ids, special=True) == "is <mask> text"


@pytest.mark.parametrize("kind", KINDS)
def test_without_special_tokens_there_are_none(kind):
    tokens = train_tokenizer(kind, BOOK, special=())
    assert (tokens.pad, tokens.bos, tokens.eos, tokens.mask, tokens.unk) == (None,) * 5
    assert tokens.special_ids == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special", [SPECIAL, ("eos",), ()], ids=["all special", "only eos", "none special"])
def test_saved_and_loaded_is_the_same_for_us_and_for_transformers(kind, special, tmp_path):
    tokens = train_tokenizer(kind, BOOK, vocab=300 if kind == "bpe" else None, special=special)
    file = tokens.save(tmp_path / "run")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert theirs.eos_token_id == tokens.eos and theirs.pad_token_id == tokens.pad
    for again in (load(tmp_path / "run"), load(file)):
        assert type(again) is type(tokens) and again.vocab == tokens.vocab == len(theirs)
        assert again.special == tokens.special and again.to_json() == tokens.to_json()
        for text in ("", *BOOK):
            assert again.encode(text) == tokens.encode(text)
    for text in ("", *BOOK[:2]):
        assert theirs(text)["input_ids"] == tokens.encode(text)
        assert theirs.decode(tokens.encode(text)) == text


def test_roles_of_foreign_special_tokens_come_from_the_config(tmp_path):
    tokens = train_tokenizer("bpe", BOOK, vocab=300, special=("pad", "bos", "eos"))
    tokens.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"cls_token": {"content": "[BOS]"}, "sep_token": "[EOS]"}')
    again = load(tmp_path)
    assert (again.bos, again.eos, again.pad) == (tokens.bos, tokens.eos, None)


def test_unknown_characters_are_named_or_become_unk():
    with pytest.raises(ValueError, match=r"3 characters .* not 'é' '龍'.*bytes or --tokenizer bpe"):
        Characters.make("abc").encode("aéb龍é")
    with pytest.raises(ValueError, match="'龍'"):
        Characters.make("abc").encode_array(["ab", "龍"])
    beyond = Characters.make("\0abc")
    with pytest.raises(ValueError, match="'龍'"):
        beyond.encode_array(["龍"])
    lenient = Characters.make("abc", special=("unk",))
    assert lenient.encode("aé龍c") == [0, 3, 3, 2] == lenient.encode_array(["aé", "龍c"]).tolist()
    assert lenient.library.encode("aé龍c").ids == [0, 3, 3, 2]


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_half_a_character_is_refused_with_its_position(kind):
    with pytest.raises(ValueError, match=r"U\+D83D, at position 2"):
        TOKENIZERS[kind].encode("ab\ud83d")


def test_ids_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"999 does not exist: .* 0 to 255"):
        Bytes.make().pieces([999])


def test_wrong_files_are_refused(tmp_path):
    with pytest.raises(Problem, match=r"tokenizer\.json"):
        load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(ValueError, match="not a tokenizer"):
        load(tmp_path)


def test_bytes_are_their_own_ids():
    assert Bytes.make().encode_array(["人", "A"]).tolist() == list("人A".encode())
    assert Bytes.make().encode_array([]).dtype == np.uint32


@settings(max_examples=20)
@given(texts=st.lists(any_text, min_size=1, max_size=5))
def test_a_bpe_of_anything_brings_back_anything(texts):
    tokens = train_tokenizer("bpe", texts, vocab=280, special=("eos",))
    assert isinstance(tokens, BPE)
    for text in (*texts, *BOOK):
        assert tokens.decode(tokens.encode(text)) == text
