"""Read SentencePiece's .model files without its library: a protobuf of pieces and normalization settings.

    ModelProto      1 pieces (many)   2 trainer_spec   3 normalizer_spec
    piece           1 text  2 score (float)  3 type: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
    trainer_spec    3 model_type: 1 unigram, 2 BPE   35 byte_fallback   24 treat_whitespace_as_suffix
    normalizer_spec 1 name  2 precompiled_charsmap  3 add_dummy_prefix  4 remove_extra_whitespaces

A protobuf message is a sequence of fields: a key with the field's number and its kind, then a varint, 4 or 8 bytes, or
a length and that many bytes. Lengths are checked against the size of the file.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..disk.bounded_reading import reading
from ..i18n import Problem, _

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
UNREADABLE = _("{file} is not a SentencePiece model that can be read: {why}. Fetch or copy it again")
KINDS = {UNIGRAM: "unigram", BPE: "bpe", 3: "word", 4: "char"}


@dataclass
class Pieces:
    """A SentencePiece model: its pieces in order, its algorithm, and how text is normalized."""

    pieces: list[tuple[str, float, int]]  # text, score, type
    kind: str = "unigram"
    byte_fallback: bool = False
    charsmap: bytes = b""
    dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    suffix: bool = False

    @property
    def names(self) -> dict[str, int]:
        """The id of each piece."""
        return {text: i for i, (text, _, _) in enumerate(self.pieces)}


def read(file: str | Path) -> Pieces:
    """Return the pieces of a .model file."""
    with reading(Path(file), UNREADABLE):
        return parse(Path(file).read_bytes())


def parse(raw: bytes) -> Pieces:
    """Return the pieces of the bytes of a .model file; raise a Problem if they are damaged."""
    model = Pieces([])
    for number, value in _fields(raw):
        spec = _message(value) if number in (1, 2, 3) else {}
        if number == 1:
            model.pieces.append(_piece(spec))
        elif number == 2:
            model.kind = KINDS.get(_int(spec.get(3, UNIGRAM)), "unknown")
            model.byte_fallback = bool(_int(spec.get(35, 0)))
            model.suffix = bool(_int(spec.get(24, 0)))
        elif number == 3:
            model.charsmap = check_charsmap(_bytes(spec.get(2, b"")))
            model.dummy_prefix = bool(_int(spec.get(3, 1)))
            model.remove_extra_whitespaces = bool(_int(spec.get(4, 1)))
    if model.kind not in ("unigram", "bpe"):
        raise Problem("its kind is {kind}, not unigram or bpe", kind=model.kind)
    if model.suffix:
        raise Problem("it writes the space at the end of words, which is not supported")
    if not model.pieces:
        raise Problem("it has no pieces")
    if len(model.names) != len(model.pieces):
        raise Problem("it has a piece twice")
    return model


def check_charsmap(raw: bytes) -> bytes:
    """Return a character map unchanged if all its references are inside it, else raise.

    Format: u32 size, a double-array trie of u32, NUL-terminated texts.
    """
    if not raw:
        return raw
    size = int.from_bytes(raw[:4], "little")
    if size % 4 or size > len(raw) - 4:
        raise Problem("its map of characters is cut")
    units = np.frombuffer(raw, dtype="<u4", count=size // 4, offset=4).astype(np.int64)
    texts = raw[4 + size :]
    _text(texts)
    if not size or not texts.endswith(b"\0"):
        raise Problem("its map of characters is cut")
    leaf = units >> 31 == 1
    children = np.arange(len(units)) ^ ((units >> 10) << ((units & 0x200) >> 6))
    if ((children | 0xFF) >= len(units))[~leaf].any():
        raise Problem("its map of characters leads outside itself")
    values = (units & 0x7FFFFFFF)[leaf]
    letters = np.frombuffer(texts, dtype=np.uint8)
    if (values >= len(letters)).any() or (letters[values] >> 6 == 2).any():
        raise Problem("its map of characters leads outside its texts")
    return raw


class Charsmap:
    """SentencePiece's normalization: at each position, replace the longest text that is in the map.

    The normalizer of the `tokenizers` library replaces single characters or graphemes: it leaves ｶ and ﾞ apart, where
    SentencePiece returns ガ, and can lose accents.
    """

    def __init__(self, raw: bytes) -> None:
        (size,) = struct.unpack_from("<I", check_charsmap(raw))
        # A unit of the trie: bits 0 to 7 are the byte that leads to it, bit 8 is set if a text ends here, and the rest
        # is the offset of its children. The child of byte c is at node ^ c; the value of a text is at node.
        self.units: list[int] = np.frombuffer(raw, dtype="<u4", count=size // 4, offset=4).tolist()
        self.texts = raw[4 + size :]

    def __call__(self, text: str) -> str:
        raw, normalized, at = text.encode(), bytearray(), 0
        while at < len(raw):
            value, length = self._longest(raw, at)
            if length:
                normalized += self.texts[value : self.texts.index(0, value)]
            else:  # keep a character
                length = 1 if raw[at] < 0xC0 else 2 if raw[at] < 0xE0 else 3 if raw[at] < 0xF0 else 4
                normalized += raw[at : at + length]
            at += length
        return normalized.decode()

    def _longest(self, raw: bytes, first: int) -> tuple[int, int]:
        """Return the longest text of the map at raw[first:] as (index of its replacement, its length in bytes)."""
        units, value, length = self.units, 0, 0
        node = units[0] >> 10 << ((units[0] & 0x200) >> 6)
        for at in range(first, len(raw)):
            node ^= raw[at]
            unit = units[node]
            if unit & 0x800000FF != raw[at]:
                break
            node ^= unit >> 10 << ((unit & 0x200) >> 6)
            if unit >> 8 & 1:
                value, length = units[node] & 0x7FFFFFFF, at + 1 - first
        return value, length


def _piece(spec: dict[int, int | bytes]) -> tuple[str, float, int]:
    number = _bytes(spec.get(2, bytes(4)))
    (score,) = struct.unpack("<f", number) if len(number) == 4 else (float("nan"),)
    kind = _int(spec.get(3, NORMAL))
    if not np.isfinite(score) or not NORMAL <= kind <= BYTE:
        raise Problem("a piece has no finite score or an unknown type")
    return _text(_bytes(spec.get(1, b""))), score, kind


def _message(value: int | bytes) -> dict[int, int | bytes]:
    return dict(_fields(_bytes(value)))


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(raw, at)
            yield number, value
            continue
        if wire == 2:
            length, at = _varint(raw, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise Problem("there is no field of kind {kind}", kind=wire)
        if length > len(raw) - at:
            raise Problem("it is cut, or not a SentencePiece model")
        yield number, raw[at : at + length]
        at += length


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            raise Problem("it is cut, or not a SentencePiece model")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Problem("a number in it never ends")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Problem("a text in it is not UTF-8") from None


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise Problem("bytes stand where a number should")
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise Problem("a number stands where bytes should")
    return value
