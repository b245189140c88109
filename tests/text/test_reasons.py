"""The reasons for refusing a file in Chinese: only quotations of other libraries are English."""

import json
import re
import struct

import numpy as np
import pytest

from qkv.formats import ctranslate2
from qkv.formats.model_files import load
from qkv.i18n import Problem, quoted, unpacked
from qkv.text import sentencepiece, tokenizer_folder
from qkv.tracing.views.traces import Trace

NAMES = "JSON|SentencePiece|unigram|bpe|UTF-8|safetensors|tokenizers"


def field(number, value):
    """A protobuf field: a text of bytes, or a small number."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def piece(text, score=0.0, kind=1):
    return field(1, field(1, text) + bytes([2 << 3 | 5]) + struct.pack("<f", score) + field(3, kind))


def charsmap(units, texts):
    return field(3, field(2, struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts))


BROKEN = {
    "kind": (piece(b"a") + field(2, field(3, 4)), "its kind is char"),
    "suffix": (piece(b"a") + field(2, bytes([0xC0, 1, 1])), "at the end of words"),
    "none": (b"", "it has no pieces"),
    "twice": (piece(b"a") + piece(b"a"), "a piece twice"),
    "map cut": (piece(b"a") + field(3, field(2, b"abc")), "map of characters is cut"),
    "map outside": (piece(b"a") + charsmap([0], b"x\0"), "leads outside itself"),
    "map texts": (piece(b"a") + charsmap([0x80000009] * 8, b"x\0"), "leads outside its texts"),
    "score": (piece(b"a", float("nan")), "no finite score"),
    "short score": (field(1, field(1, b"a") + field(2, b"abc")), "no finite score"),
    "field": (bytes([1 << 3 | 3]), "no field of kind 3"),
    "cut": (piece(b"abc")[:-4], "it is cut"),
    "number": (bytes([0x80] * 12), "never ends"),
    "bytes": (piece(b"a") + field(2, field(3, b"x")), "bytes stand where a number should"),
    "numbers": (field(1, 5), "a number stands where bytes should"),
    "utf8": (piece(b"\xff"), "not UTF-8"),
}


def chinese(problem, file):
    """Return the Chinese sentence without the file's name, quotations and proper names."""
    sentence = problem.say("zh").replace(str(file), "")
    assert re.search("[一-鿿]", sentence)
    return re.sub(f"“.*?”|{NAMES}", "", sentence)


@pytest.mark.parametrize("name", BROKEN)
def test_damaged_sentencepiece_models(name, tmp_path):
    raw, message = BROKEN[name]
    file = tmp_path / "a.model"
    file.write_bytes(raw)
    with pytest.raises(Problem, match=message) as raised:
        sentencepiece.read(file)
    assert not re.search("[A-Za-z]{3}", chinese(raised.value, file).replace("char", "")), raised.value.say("zh")


def text_of(name, content):
    def make(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return make


REASONS = {
    "a list for a table": (text_of("config.json", "[]"), lambda file: tokenizer_folder._read(file)),
    "no JSON": (text_of("config.json", "{"), lambda file: tokenizer_folder._read(file)),
    "no UTF-8": (text_of("config.json", b"\xff"), lambda file: tokenizer_folder._read(file)),
    "ids with a gap": (text_of("vocab.json", '{"a": 0, "b": 2}'), lambda file: tokenizer_folder._read_vocabulary(file)),
    "no such file": (text_of("else", ""), lambda file: tokenizer_folder._lines(file.with_name("vocab.json"))),
    "no tokenizer": (text_of("tokenizer.json", "{}"), lambda file: tokenizer_folder.load(file)),
    "no words": (text_of("shared_vocabulary.json", '{"a": 0}'), lambda file: ctranslate2.vocabulary(file.parent)),
    "no words, no JSON": (text_of("shared_vocabulary.json", "["), lambda file: ctranslate2.vocabulary(file.parent)),
    "no trace": (text_of("a.safetensors", "nonsense"), lambda file: Trace.load(file)),
}


@pytest.mark.parametrize("name", REASONS)
def test_reasons(name, tmp_path):
    make, read = REASONS[name]
    file = make(tmp_path)
    with pytest.raises(Problem) as raised:
        read(file)
    english = chinese(raised.value, file).replace(str(tmp_path / "vocab.json"), "")
    assert not re.search("[A-Za-z]{3}", english), raised.value.say("zh")


def test_weights_that_are_not_safetensors(tmp_path):
    config = {
        "model_type": "llama",
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 9,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(np.arange(99, dtype=np.uint8).tobytes())
    with pytest.raises(Problem, match="SafetensorError") as raised:
        load(tmp_path)
    file = tmp_path / "model.safetensors"
    assert not re.search("[A-Za-z]{3}", chinese(raised.value, file)) and "“SafetensorError" in raised.value.say("zh")


def test_quotations():
    assert quoted(unpacked({"en": "cut", "zh": "不完整"})) == unpacked({"en": "cut", "zh": "不完整"})
    inner = Problem("it has no pieces")
    assert quoted(inner) is inner
    assert quoted(ValueError("x is y\nmore")).packed() == {"en": "x is y", "zh": "原文“x is y”"}
    assert quoted(FileNotFoundError(2, "No such file or directory")).say("zh") == "没有这个文件或文件夹"
