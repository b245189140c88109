"""The effect of edited heads on a model's next word, masked word, or translation.

    without(model, tokenizer, "The cat sat because", "13.8")    the next word before and after

V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...i18n import Problem
from ..record.model_protocol import Model, model_of
from ..record.tokenizer_protocol import AnyTokenizer, Reader, ids_of, reader_of
from ..views.token_labels import show
from .edits import edit


@dataclass(frozen=True)
class Effect:
    """The effect of an edit on the next word of a text (for an encoder, the masked one), or on its translation."""

    heads: tuple[str, ...]
    to: str
    words: tuple[tuple[str, float, float], ...] = ()  # (word, probability before, after), sorted by that before
    moved: float = 0.0  # the probability that moved to other words, 0 … 1
    said: tuple[str, str] | None = None  # the translation before and after


def without(
    model: object, tokenizer: Any, text: str, heads: str | Sequence[str], *, to: str = "zero", most: int = 5
) -> Effect:
    """Return how the model's next word, or its translation, changes when these heads are edited.

    `words` are the `most` likeliest words before and after the edit, with both probabilities.
    """
    if tokenizer is None:
        raise Problem("a text needs a tokenizer: pass tokenizer=, or give token ids")
    names = (heads,) if isinstance(heads, str) else tuple(heads)
    adapter, reader = model_of(model), reader_of(tokenizer)
    if adapter.kind == "encoder-decoder":
        cache = to != "mean"  # see `edit`
        translation = adapter.translate(text, tokenizer, cache=cache)
        with edit(model, names, to):
            edited_translation = adapter.translate(text, tokenizer, cache=cache)
        return Effect(names, to, said=(translation, edited_translation), moved=float(translation != edited_translation))
    before = _expected(adapter, tokenizer, text)
    with edit(model, names, to):
        after = _expected(adapter, tokenizer, text)
    k = min(most, len(before))
    top = dict.fromkeys(before.topk(k).indices.tolist() + after.topk(k).indices.tolist())
    ids = ids_of(text, tokenizer)[0]
    labels = dict(reader.tokens(ids).parts_of_characters())  # labelled as in the text
    words = [(labels.get(i) or _label(reader, i), float(before[i]), float(after[i])) for i in top]
    moved = float((before - after).abs().sum()) / 2
    return Effect(names, to, tuple(sorted(words, key=lambda word: -word[1])), moved)


def _label(reader: Reader, i: int) -> str:
    try:
        return show(reader.tokens([i]).pieces[0])
    except Problem:  # the vocabulary may be padded beyond the tokenizer's
        return f"[{i}]"


def _expected(model: Model, tokenizer: AnyTokenizer, text: str) -> Tensor:
    """Return the probabilities (V,) of the next word, or of the word at [MASK]."""
    run, ids, _ = model.prepare(text, tokenizer)
    row, reader = ids[0].tolist(), reader_of(tokenizer)
    if model.kind == "encoder":
        hidden = mask_of(tokenizer)
        if hidden not in row:
            raise Problem(
                "an encoder is asked about a hidden word: write {mask} in the text",
                mask=reader.tokens([hidden]).pieces[0],
            )
        at = row.index(hidden)
    else:
        # The tokenizer may append an end token: predict the word in its place.
        at = len(row) - (2 if len(row) > 1 and row[-1] == reader.eos else 1)
    return run(ids)[0, at].softmax(-1)


def mask_of(tokenizer: AnyTokenizer) -> int:
    """Return the id of the mask token."""
    mask = reader_of(tokenizer).mask
    if mask is None:
        raise Problem("the tokenizer has no mask token: was this model trained on hidden words (qkv train mlm)?")
    return mask
