"""Caption a picture and show the attention of each word: the cross-attention of a translator from patches to words."""

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
    """A word and its attention to each patch of the picture, (8, 16)."""

    word: str
    patches: np.ndarray


@dataclass(frozen=True)
class Caption:
    """The caption of a picture in one language, word by word."""

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
    """Caption a picture of 16 × 32 pixels (`pictures.small`) in "en" or "zh".

    A word's attention is the mean over the rows that predict its letters, and over the heads of a layer (by default the
    last) or of one head. Attention to the language token and to the end is left out.
    """
    recorded = trace(model, picture_tokens.source(pixels, lang), tokenizer)
    n_patches = picture_tokens.ROWS * picture_tokens.COLUMNS
    if len(recorded.tokens("cross", keys=True)) != n_patches + 2:  # the language, the patches, the end
        raise Problem("this model reads no pictures: take --demo, or a translator trained on pictures as signs")
    layer = len(recorded.calls["cross"]) - 1 if layer is None else layer
    heads = range(recorded.calls["cross"][-1].q.shape[1]) if head is None else [head]
    shares = np.mean([recorded.map(layer, h, part="cross") for h in heads], axis=0)  # (tokens, 1 + 128 + end)
    patches = picture_tokens.to_grid(shares[:, 1 : 1 + n_patches])
    tokens = recorded.tokens("cross")
    spans = [(word, a, b) for word, a, b in tokens.words if word.strip() and not any(tokens.special[a:b])]
    words = tuple(CaptionWord(word, patches[a:b].mean(0)) for word, a, b in spans)
    whole = "".join(piece for piece, special in zip(tokens.pieces, tokens.special, strict=True) if not special)
    return Caption(lang, whole, words, recorded)
