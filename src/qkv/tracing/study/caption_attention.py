"""A picture told in words, and where each word looked: the cross-attention of a translator from patches to words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...i18n import Problem
from ...model.transformer import Transformer
from ...text import picture_tokens
from ...text.tokenizer import Tokenizer
from ..record.recorder import trace
from ..views.traces import Trace


@dataclass(frozen=True)
class CaptionWord:
    """A word, and how much of its attention went to each patch of the picture, (8, 16)."""

    word: str
    patches: np.ndarray


@dataclass(frozen=True)
class Caption:
    """What a picture was called in one language, word by word."""

    lang: str
    text: str
    words: tuple[CaptionWord, ...]
    trace: Trace


def caption(
    model: Transformer,
    tokenizer: Tokenizer,
    pixels: np.ndarray,
    lang: str,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Caption:
    """Tell a picture of 16 × 32 pixels (`pictures.small`) in "en" or "zh".

    Where a word looked is the mean of the rows that made its letters, over the heads of a layer (the last unless another is
    named) or in one head. What goes to the letter of the language and to the end is no place in the picture and is left out.
    """
    recorded = trace(model, picture_tokens.source(pixels, lang), tokenizer)
    n_patches = picture_tokens.ROWS * picture_tokens.COLUMNS
    if len(recorded.tokens("cross", keys=True)) != n_patches + 2:  # the language, the patches, the end
        raise Problem("this model reads no pictures: take --demo, or a translator trained on pictures as signs")
    layer = len(recorded.calls["cross"]) - 1 if layer is None else layer
    heads = range(recorded.calls["cross"][-1].q.shape[1]) if head is None else [head]
    shares = np.mean([recorded.map(layer, h, part="cross") for h in heads], axis=0)  # (tokens, 1 + 128 + end)
    patches = picture_tokens.by_places(shares[:, 1 : 1 + n_patches])
    tokens = recorded.tokens("cross")
    spans = [(word, a, b) for word, a, b in tokens.words if word.strip() and not any(tokens.special[a:b])]
    words = tuple(CaptionWord(word, patches[a:b].mean(0)) for word, a, b in spans)
    whole = "".join(piece for piece, special in zip(tokens.pieces, tokens.special, strict=True) if not special)
    return Caption(lang, whole, words, recorded)
