"""Loss of each token: −log p given the tokens before it. One protocol for qkv's models and those of transformers.

B batch, N tokens read, K tokens scored, R rows of any of these, C model width, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..attention import masks
from ..generation.decoding import translate_ids
from ..generation.prefill import pad, quiet, wordless
from ..i18n import Problem
from ..model.transformer import Transformer
from ..model.word_loss import word_costs
from ..text.tokenizer import Tokenizer

Rows = Sequence[Sequence[int]]


class Scorer(Protocol):
    """What evaluation needs of a model."""

    kind: str  # encoder, decoder or encoder-decoder

    @property
    def context(self) -> int | None:
        """Context in tokens, if known."""

    bounded: bool  # True if the context can't be exceeded

    def next_tokens(self, ids: Tensor, count: int) -> Tensor:
        """Return losses (B, K) of the last `count` of ids (B, N + 1), each given all tokens before it."""

    def targets(self, sources: Rows, targets: Rows, tokenizer: Tokenizer) -> list[Tensor]:
        """Return the losses of each target and its end token, given its source (encoder-decoders)."""

    def translations(self, sources: Rows, tokenizer: Tokenizer, width: int | None, most: int) -> list[list[int]]:
        """Return the translation of each source, without its end token (encoder-decoders)."""


def scorer_of(model: Any) -> Scorer:
    """Return the scorer for a `Transformer` or for a model of transformers."""
    return NativeScorer(model) if isinstance(model, Transformer) else HfScorer(model)


class NativeScorer:
    """Scorer of a `Transformer`.

    >>> from ..model.config import Config
    >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4))
    >>> NativeScorer(model).next_tokens(torch.tensor([[3, 1, 4, 1, 5]]), 2).shape
    torch.Size([1, 2])
    """

    def __init__(self, model: Transformer) -> None:
        if not model.config.predicts_words:
            raise wordless(model)
        self.model, self.context = model, model.config.context
        self.kind: str = model.config.kind
        self.bounded = model.config.position == "learned"

    def next_tokens(self, ids: Tensor, count: int) -> Tensor:
        ids = ids.to(self.model.embedding.weight.device)
        with quiet(self.model):
            states = self.model.decode(ids[:, :-1])[:, -count:]  # (B, K, C)
            return self._losses(states.flatten(0, 1), ids[:, -count:].flatten()).view(len(ids), count)

    def targets(self, sources: Rows, targets: Rows, tokenizer: Tokenizer) -> list[Tensor]:
        start, end = start_token(tokenizer), tokenizer.ends[0]
        device = self.model.embedding.weight.device
        source, lengths = pad([list(row) for row in sources], device)
        mask = None if len({len(row) for row in sources}) == 1 else masks.padding(lengths)
        # A decoder's tokens never see later ones, so padding at their end needs no mask.
        inputs, sizes = pad([[start, *row] for row in targets], device)
        labels, _ = pad([[*row, end] for row in targets], device)
        is_real = torch.arange(inputs.shape[1], device=device) < sizes[:, None]
        with quiet(self.model):
            states = self.model.decode(inputs, self.model.encode(source, mask), memory_mask=mask)
            return list(self._losses(states[is_real], labels[is_real]).split(sizes.tolist()))

    def translations(self, sources: Rows, tokenizer: Tokenizer, width: int | None, most: int) -> list[list[int]]:
        return translate_ids(self.model, tokenizer, sources, width=width, most=most)

    def _losses(self, states: Tensor, labels: Tensor) -> Tensor:
        return word_costs(self.model.head, states, labels).cpu()


class HfScorer:
    """Scorer of a model of transformers with its language-model head."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model.eval(), model.config
        context = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        self.context: int | None = context if isinstance(context, int) else None
        self.bounded = False  # a model without positions raises its own error
        self.kind = "encoder-decoder" if self.config.is_encoder_decoder else self._kind()

    @torch.inference_mode()
    def _kind(self) -> str:
        """Return the kind by testing: a decoder's first logits can't depend on its second token."""
        ids = torch.tensor([[0, 0], [0, 1]], device=self.model.device)
        first = getattr(self.model(input_ids=ids), "logits", None)
        if first is None or first.ndim != 3:
            raise wordless(self.model)
        return "decoder" if torch.allclose(first[0, 0], first[1, 0], atol=1e-4) else "encoder"

    @torch.inference_mode()
    def next_tokens(self, ids: Tensor, count: int) -> Tensor:
        ids = ids.to(self.model.device)
        parameters = inspect.signature(self.model.forward).parameters
        options = {
            name: value for name, value in (("logits_to_keep", count), ("use_cache", False)) if name in parameters
        }
        logits = self.model(input_ids=ids[:, :-1], **options).logits[:, -count:]  # (B, K, V)
        return losses(logits.flatten(0, 1), ids[:, -count:].flatten()).view(len(ids), count)

    @torch.inference_mode()
    def targets(self, sources: Rows, targets: Rows, tokenizer: Tokenizer) -> list[Tensor]:
        start, end = self._start(tokenizer), tokenizer.ends[0]
        labels, sizes = pad([[*row, end] for row in targets], self.model.device)
        inputs, _ = pad([[start, *row] for row in targets], self.model.device)
        is_real = torch.arange(inputs.shape[1], device=inputs.device) < sizes[:, None]
        logits = self.model(**self._source(sources), decoder_input_ids=inputs, use_cache=False).logits
        return list(losses(logits[is_real], labels[is_real]).split(sizes.tolist()))

    @torch.inference_mode()
    def translations(self, sources: Rows, tokenizer: Tokenizer, width: int | None, most: int) -> list[list[int]]:
        beams = {} if width is None else {"num_beams": width}
        generated = self.model.generate(**self._source(sources), do_sample=False, max_new_tokens=most, **beams).tolist()
        ends = {*tokenizer.ends, self.config.pad_token_id}
        return [row[1 : next((i for i in range(1, len(row)) if row[i] in ends), len(row))] for row in generated]

    def _source(self, sources: Rows) -> dict[str, Tensor]:
        ids, lengths = pad([list(row) for row in sources], self.model.device)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        return {"input_ids": ids, "attention_mask": real.long()}

    def _start(self, tokenizer: Tokenizer) -> int:
        start = self.model.generation_config.decoder_start_token_id
        return start_token(tokenizer) if start is None else start


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Return −log p (R,) of labels (R,) under logits (R, V), in float64.

    >>> losses(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor([1.3863, 1.3863], dtype=torch.float64)
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return F.cross_entropy(logits, labels, reduction="none").double().cpu()


def start_token(tokenizer: Tokenizer) -> int:
    """Return the token that a decoder starts with, or raise a Problem if it or the end token is missing."""
    if tokenizer.start is None or not tokenizer.ends:
        raise Problem("the tokenizer has no bos or no eos token, which a translation begins and ends with")
    return tokenizer.start
