"""A protocol for tokenizers, with adapters for qkv's own, for those of transformers, and for none.

reader_of(tokenizer).tokens(ids)       the label of each token
ids_of(text, tokenizer)                the ids of texts, or of a transformers tokenizer's result
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from ...i18n import Problem, all_of
from ..views.token_labels import Tokens

if TYPE_CHECKING:
    from ...text.tokenizer import Tokenizer

Rows = list[list[int]]
Inputs = dict[str, Any]  # the keyword arguments of a transformers model


class HFTokenizer(Protocol):
    """The part of a transformers tokenizer that is used here."""

    def __call__(self, text: str | list[str] = "", **options: object) -> Inputs: ...

    def decode(self, ids: Sequence[int], **options: object) -> str: ...


AnyTokenizer: TypeAlias = "Tokenizer | HFTokenizer | None"


class Reader(Protocol):
    """A tokenizer; an id is None if there is no such token."""

    eos: int | None
    mask: int | None
    unknown: int | None

    def ids(self, text: str, *, framed: bool = True) -> list[int]:
        """Return the ids of a text, if `framed` with the tokenizer's special tokens around it."""

    def batch(self, texts: Sequence[str]) -> Inputs:
        """Return `input_ids` of texts, with special tokens, and the tokenizer's other model inputs."""
        return {"input_ids": [self.ids(text) for text in texts]}

    def source(self, rows: Rows) -> Rows:
        """Append the end token to rows for an encoder if the tokenizer doesn't."""
        return rows

    def target(self, text: str) -> list[int]:
        """Return the ids of a target text."""

    def text(self, ids: Sequence[int]) -> str:
        """Decode ids without special tokens."""

    def tokens(self, ids: Iterable[int]) -> Tokens:
        """Return the labels of ids."""


def reader_of(tokenizer: AnyTokenizer) -> Reader:
    """Return the adapter of a tokenizer."""
    from ...text.tokenizer import Tokenizer

    if tokenizer is None:
        return NoReader()
    return NativeReader(tokenizer) if isinstance(tokenizer, Tokenizer) else HFReader(tokenizer)


def ids_of(source: Any, tokenizer: AnyTokenizer) -> Rows:
    """Return the ids of each text, with special tokens."""
    if isinstance(source, str):
        source = [source]
    if isinstance(source, Mapping) and "input_ids" not in source:
        raise Problem("a dict for this model needs input_ids; it has {keys}", keys=all_of(source) if source else "{}")
    if is_encoding(source):
        ids, mask = to_list(source["input_ids"]), source.get("attention_mask")
        source = ids if mask is None else _unpadded(ids, to_list(mask))
    items = list(to_list(source))
    if not items:
        raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    if isinstance(items[0], int):
        items = [items]
    if isinstance(items[0], str):
        reader = reader_of(tokenizer)
        items = [reader.ids(text) for text in items]
    rows = [[int(i) for i in row] for row in items]
    if any(not row for row in rows):
        raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    return rows


def is_encoding(source: object) -> bool:
    """True for the result of a transformers tokenizer, or a dict like it."""
    return isinstance(source, Mapping) or hasattr(source, "input_ids")


def to_list(values: Any) -> Any:
    """Return tensors and arrays as lists."""
    return values.tolist() if hasattr(values, "tolist") else values


def _unpadded(ids: Rows, mask: Rows) -> Rows:
    """Remove the padding."""
    return [
        [i for i, is_real in zip(row, row_mask, strict=True) if is_real]
        for row, row_mask in zip(ids, mask, strict=True)
    ]


class NativeReader(Reader):
    """Adapter for a tokenizer of qkv.text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.eos, self.mask, self.unknown = tokenizer.eos, tokenizer.mask, tokenizer.unk

    def ids(self, text: str, *, framed: bool = True) -> list[int]:
        if not framed:
            return list(self.tokenizer.encode(text))
        return self.tokenizer.frame(self.tokenizer.encode(text, special=True))

    def source(self, rows: Rows) -> Rows:
        if self.eos is None:
            return rows
        return [row if row[-1] == self.eos else [*row, self.eos] for row in rows]  # see generation.source_ids

    def target(self, text: str) -> list[int]:
        return list(self.tokenizer.encode_target(text))

    def text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def tokens(self, ids: Iterable[int]) -> Tokens:
        ids = [int(i) for i in ids]
        return _tokens(ids, self.tokenizer.special_ids, self.tokenizer)


class HFReader(Reader):
    """Adapter for a transformers tokenizer."""

    def __init__(self, tokenizer: HFTokenizer) -> None:
        self.tokenizer = tokenizer
        ids = (getattr(tokenizer, f"{role}_token_id", None) for role in ("eos", "mask", "unk"))
        self.eos, self.mask, self.unknown = ids

    def ids(self, text: str, *, framed: bool = True) -> list[int]:
        return list(self.tokenizer(text, **({} if framed else {"add_special_tokens": False}))["input_ids"])

    def batch(self, texts: Sequence[str]) -> Inputs:
        """Pad and add a mask if there is a padding token."""
        pads = getattr(self.tokenizer, "pad_token_id", None) is not None
        encoded = dict(self.tokenizer(list(texts), padding=pads and len(texts) > 1))
        names = ("input_ids", "attention_mask", "token_type_ids") if pads else ("input_ids",)
        return {key: encoded[key] for key in names if key in encoded}

    def target(self, text: str) -> list[int]:
        return list(self.tokenizer(text_target=text)["input_ids"])

    def text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def tokens(self, ids: Iterable[int]) -> Tokens:
        ids = [int(i) for i in ids]
        special = getattr(self.tokenizer, "all_special_ids", ())
        native = _native_view(self.tokenizer)
        if native is not None:
            return _tokens(ids, special, native)
        # A slow tokenizer.
        return Tokens(tuple(self.tokenizer.decode([i]) for i in ids), tuple(i in special for i in ids), tuple(ids))


class NoReader(Reader):
    """Without a tokenizer: tokens are labelled by their ids, and texts can't be read."""

    eos = mask = unknown = None

    def ids(self, text: str, *, framed: bool = True) -> list[int]:
        raise Problem("a text needs a tokenizer: pass tokenizer=, or give token ids")

    def target(self, text: str) -> list[int]:
        return self.ids(text)

    def text(self, ids: Sequence[int]) -> str:
        return " ".join(self.tokens(ids).pieces)

    def tokens(self, ids: Iterable[int]) -> Tokens:
        ids = [int(i) for i in ids]
        return Tokens(tuple(f"[{i}]" for i in ids), ids=tuple(ids))


def padded(reader: Reader, row: Sequence[int], real: Sequence[bool]) -> Tokens:
    """Return the labels of a row of ids; those that aren't `real` are padding, on either side, and special."""
    positions = [i for i, is_real in enumerate(real) if is_real]
    tokens = reader.tokens(row[i] for i in positions)
    if len(positions) == len(real):
        return tokens
    pieces, special = ["[PAD]"] * len(real), [True] * len(real)
    for i, piece, is_special in zip(positions, tokens.pieces, tokens.special, strict=True):
        pieces[i], special[i] = piece, is_special
    whole = [(label, positions[first], positions[end - 1] + 1) for label, first, end in tokens.whole]
    whole += [("[PAD]", i, i + 1) for i, is_real in enumerate(real) if not is_real]
    whole.sort(key=lambda group: group[1])
    return Tokens(tuple(pieces), tuple(special), tuple(row), tuple(whole))


def _tokens(ids: list[int], special: Iterable[int], native: Tokenizer) -> Tokens:
    """Return labels by a native tokenizer, which knows the bytes of each token."""
    special = set(special)
    return Tokens(tuple(native.pieces(ids)), tuple(i in special for i in ids), tuple(ids), tuple(native.whole(ids)))


# Converting a vocabulary is slow: done once per tokenizer, and again when tokens were added.
_NATIVE_VIEWS: WeakKeyDictionary[HFTokenizer, tuple[object, Tokenizer]] = WeakKeyDictionary()


def _native_view(tokenizer: HFTokenizer) -> Tokenizer | None:
    """Return a native tokenizer with the same `tokenizers` backend as a fast tokenizer of transformers; None for slow ones."""
    library = getattr(tokenizer, "backend_tokenizer", None)
    if library is None:
        return None
    added = {i: (token.content, token.special) for i, token in library.get_added_tokens_decoder().items()}
    state = library.get_vocab_size(), added
    cached = _NATIVE_VIEWS.get(tokenizer)
    if cached is None or cached[0] != state:
        from tokenizers import Tokenizer as Library

        from ...text.tokenizer import Tokenizer

        # A copy, since the native tokenizer changes its settings.
        _NATIVE_VIEWS[tokenizer] = cached = state, Tokenizer(Library.from_str(library.to_str()))
    return cached[1]
