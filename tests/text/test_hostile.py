"""Tokenizer files that would crash the process or be misread silently: each raises a Problem."""

import base64
import json
import subprocess
import sys

import pytest

from qkv.i18n import Problem
from qkv.text import imported_tokenizers, load, train_tokenizer
from qkv.text.library_tokenizer import LONGEST
from qkv.text.sentencepiece import Pieces

LONG = "x" * 1_000_000


@pytest.fixture
def folder(tmp_path):
    train_tokenizer("bpe", ["the cat sat on the mat"] * 9, vocab=300).save(tmp_path)
    return tmp_path


def change(file, **values):
    saved = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    file.write_text(json.dumps(saved | values), encoding="utf-8")


def unigram(vocab):
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab},
    }


def test_a_token_of_a_million_letters_is_refused_wherever_it_stands(folder, tmp_path):
    """The library keeps a node per letter and crashes when it frees the chain, so it must not be built."""
    pieces = Pieces([("<unk>", 0.0, 2), (LONG, -1.0, 1)])
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "tokenizer.json").write_text(json.dumps(unigram([["<unk>", 0.0], [LONG, -1.0]])))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "vocab.txt").write_text(f"[UNK]\n{LONG}\n")
    change(folder / "tokenizer.json", added_tokens=[{"id": 300, "content": LONG, "special": True}])
    gguf = {"ggml.model": "t5", "ggml.tokens": ["<unk>", LONG], "ggml.scores": [0.0, -1.0], "ggml.token_type": [2, 1]}
    for make in (
        lambda: load(tmp_path / "one"),
        lambda: load(tmp_path / "two"),
        lambda: load(folder),
        lambda: imported_tokenizers.from_pieces(pieces),
        lambda: imported_tokenizers.from_gguf(gguf),
        lambda: imported_tokenizers._numbered_by(None, pieces, ["</s>", "<unk>", LONG], "x.model"),
    ):
        with pytest.raises(Problem, match="has 1,000,000 characters") as raised:
            make()
        assert "1,000,000" in raised.value.say("zh") and len(str(raised.value)) < 500


def test_the_longest_allowed_token_works(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(unigram([["<unk>", 0.0], ["人" * LONGEST, -1.0]])))
    script = f"from qkv.text import load; t = load({str(tmp_path)!r}); print(t.encode('人' * {LONGEST})); del t"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (process.returncode, process.stdout.strip()) == (0, "[1]"), process.stderr[-500:]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("generation_config.json", {"eos_token_id": {"a": 1}}, "eos_token_id is {'a': 1}, not the id of a token"),
        ("config.json", {"eos_token_id": [1, [2]]}, "not the id of a token"),
        ("tokenizer_config.json", {"eos_token_ids": "2"}, "not the id of a token"),
        ("tokenizer_config.json", {"decoder_start_token_id": 1.5}, "not the id of a token"),
        ("tokenizer_config.json", {"eos_token": "\ud800"}, "half a character"),
        ("tokenizer_config.json", {"chat_template": "\udfff"}, "half a character"),
        ("special_tokens_map.json", {"pad_token": {"content": "\ud800"}}, "half a character"),
        ("tokenizer.json", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "ab=c!"}}, "not a tokenizer"),
        ("tokenizer.json", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": 5}}, "not a tokenizer"),
        ("tokenizer.json", {"model": []}, "not a tokenizer"),
        ("tokenizer.json", {"added_tokens": {"a": 1}}, "not a tokenizer"),
    ],
)
def test_files_without_valid_tokens_are_refused(name, values, message, folder, capfd):
    change(folder / name, **values)
    with pytest.raises(Problem, match=message.replace("[", r"\[").replace("{", r"\{")) as raised:
        load(folder)
    assert str(folder / name) in str(raised.value) and raised.value.say("zh")
    assert "panicked" not in capfd.readouterr().err


def test_a_panic_of_the_library_becomes_a_problem(folder, monkeypatch):
    """A panic is not an Exception, so `except Exception` does not catch it."""

    class PanicException(BaseException):
        pass

    def panic(text):
        raise PanicException("index out of bounds")

    monkeypatch.setattr("qkv.text.tokenizer_folder.Library.from_str", panic, raising=False)
    with pytest.raises(Problem, match="index out of bounds"):
        load(folder)


def test_blanks_without_end_are_refused(tmp_path):
    from .test_imported_tokenizers import train_pieces

    train_pieces(tmp_path, "spiece.model", model_type="unigram")
    change(tmp_path / "tokenizer_config.json", tokenizer_class="T5Tokenizer", extra_ids=2_000_000_000)
    with pytest.raises(Problem, match="extra_ids is 2000000000, not a number from 0 to 10,000"):
        load(tmp_path)


def test_a_map_of_characters_is_read_as_strictly_as_the_library_does(folder):
    """Python's base64 ignores invalid characters, and the library panics."""
    change(
        folder / "tokenizer.json",
        normalizer={"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(8)).decode()[:-1]},
    )
    with pytest.raises(Problem, match="not a tokenizer"):
        load(folder)


@pytest.mark.parametrize("kind", ["WordPiece", "WordLevel", "BPE"])
def test_a_vocabulary_without_its_own_unknown_token_is_refused(kind, tmp_path):
    """It would encode known words and fail on others."""
    model = {"type": kind, "unk_token": "[UNK]", "vocab": {"the": 0, "t": 1}}
    model |= {"merges": []} if kind == "BPE" else {}
    model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100} if kind == "WordPiece" else {}
    (tmp_path / "tokenizer.json").write_text(json.dumps(unigram([]) | {"model": model}))
    with pytest.raises(Problem, match=r"lacks '\[UNK\]'"):
        load(tmp_path)


def test_a_text_that_cannot_be_encoded_is_refused(tmp_path):
    model = {"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0]]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(unigram([]) | {"model": model}))
    tokenizer = load(tmp_path)
    assert tokenizer.encode("aa") == [0, 0]
    for encode in (lambda: tokenizer.encode("b"), lambda: tokenizer.encode_batch(["b"])):
        with pytest.raises(Problem, match="can't cut the text"):
            encode()


def test_a_piece_without_an_id_is_refused(tmp_path):
    from .test_imported_tokenizers import train_pieces

    tokenizer = imported_tokenizers.from_sentencepiece(
        train_pieces(tmp_path, "m.model", model_type="unigram")[0], ["</s>", "<unk>", "▁the"]
    )
    assert tokenizer.encode("the cat")[0] == 2
    tokenizer.unk = None  # as where tokenizer_config.json names another
    with pytest.raises(Problem, match="no token for '▁"):
        tokenizer.encode("the cat")


def test_a_frame_of_unknown_tokens_is_refused(tmp_path, capfd):
    special = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
    frame = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    saved = unigram([["<s>", 0.0], ["a", -1.0], ["1", -1.0]])
    for special_tokens, message in (
        ({}, "'<s>', which it puts around"),
        ({"<s>": special["<s>"] | {"ids": [900]}}, "900, which"),
    ):
        template = {"type": "TemplateProcessing", "single": frame, "pair": frame, "special_tokens": special_tokens}
        (tmp_path / "tokenizer.json").write_text(json.dumps(saved | {"post_processor": template}))
        with pytest.raises(Problem, match=message):
            load(tmp_path).frame([1])
    assert "panicked" not in capfd.readouterr().err
