"""What the tokens of a vocabulary spell: each tokenizer writes bytes and spaces into their names in a way of its own."""

import codecs
import json
import re
import unicodedata
from collections.abc import Callable

from tokenizers import Tokenizer as Library
from tokenizers import pre_tokenizers


def _byte_letters() -> list[str]:
    """How byte-level vocabularies write each byte: a printable one as itself, the others from U+0100 on."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    themselves = {ord(letter) for letter in alphabet if ord(letter) < 256}
    stand_ins = iter(letter for letter in alphabet if ord(letter) >= 256)
    return [chr(byte) if byte in themselves else next(stand_ins) for byte in range(256)]


LETTERS = _byte_letters()
BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}


def spelling(library: Library) -> Callable[[str], bytes]:
    """How this tokenizer writes bytes and spaces into the names of its tokens, told by its decoder."""
    told = json.loads(library.decoder.__getstate__()) if library.decoder is not None else {}
    steps = {step.get("type"): step for step in (told, *told.get("decoders", ()))}
    if "ByteLevel" in steps:
        return _from_letters
    if "WordPiece" in steps:
        return lambda name: _from_word_piece(name, steps["WordPiece"].get("prefix", "##"))
    if "BPEDecoder" in steps:
        suffix = steps["BPEDecoder"].get("suffix", "</w>")
        return lambda name: (name.removesuffix(suffix) + " " * name.endswith(suffix)).encode()
    if "Metaspace" in steps or steps.get("Replace", {}).get("content") == " ":
        fallback = "ByteFallback" in steps
        return lambda name: _from_pieces(name, fallback)
    return str.encode


def _from_letters(name: str) -> bytes:
    try:
        return bytes(BYTES[letter] for letter in name)
    except KeyError:  # a name that was never made of bytes, as of unused places
        return name.encode()


def _from_pieces(name: str, fallback: bool) -> bytes:
    if fallback and re.fullmatch(r"<0x[0-9A-F]{2}>", name):
        return bytes([int(name[3:5], 16)])
    return name.replace("▁", " ").encode()


def _from_word_piece(name: str, prefix: str) -> bytes:
    """A piece that goes on with a word joins it; one that begins a word has a space before it.

    Punctuation and 汉字 are cut out of their surroundings wherever they stand, so nothing is said about a space.
    """
    if name.startswith(prefix) and name != prefix:
        return name.removeprefix(prefix).encode()
    alone = len(name) == 1 and (unicodedata.category(name)[0] in "PS" or unicodedata.category(name) == "Lo")
    return (name if alone else f" {name}").encode()


def is_begun(raw: bytes) -> bool:
    """Whether these bytes are a text whose last character is only begun."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def _as_hex(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("qkv.hex", _as_hex)


def show(raw: bytes) -> str:
    """A token's bytes as text, <E4> for a byte that is only part of a character."""
    return raw.decode(errors="qkv.hex")
