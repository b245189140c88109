"""What each token costs a model: −log p of it, after what stands before it. One protocol, answered by our models and by
those of transformers.

B batch, N tokens a model reads, K of them whose next token is wanted, R rows of any of these, C model width, V vocabulary.
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
    """A model as far as measuring needs it."""

    kind: str  # encoder, decoder or encoder-decoder

    @property
    def context(self) -> int | None:
        """How many tokens it was made for, where it says so."""

    bounded: bool  # are there no positions beyond?

    def next_tokens(self, ids: Tensor, count: int) -> Tensor:
        """Losses (B, K) of the last `count` of ids (B, N + 1), each after all that stands before it."""

    def targets(self, sources: Rows, targets: Rows, tokenizer: Tokenizer) -> list[Tensor]:
        """Losses of each target and of its end, for an encoder-decoder that has read the source."""

    def translations(self, sources: Rows, tokenizer: Tokenizer, width: int | None, most: int) -> list[list[int]]:
        """What an encoder-decoder says to each source, without its end."""


def scorer_of(model: Any) -> Scorer:
    """The one place where ours and theirs are told apart."""
    return NativeScorer(model) if isinstance(model, Transformer) else HfScorer(model)


class NativeScorer:
    """A `Transformer`.

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
        """The head reads only the states that are asked."""
        ids = ids.to(self.model.embedding.weight.device)
        with quiet(self.model):
            states = self.model.decode(ids[:, :-1])[:, -count:]  # (B, K, C)
            return self._losses(states.flatten(0, 1), ids[:, -count:].flatten()).view(len(ids), count)

    def targets(self, sources: Rows, targets: Rows, tokenizer: Tokenizer) -> list[Tensor]:
        """A decoder's tokens never see what follows, so padding at their end needs no mask."""
        start, end = start_token(tokenizer), tokenizer.ends[0]
        device = self.model.embedding.weight.device
        source, lengths = pad([list(row) for row in sources], device)
        mask = None if len({len(row) for row in sources}) == 1 else masks.padding(lengths)
        inputs, sizes = pad([[start, *row] for row in targets], device)
        labels, _ = pad([[*row, end] for row in targets], device)
        is_real = torch.arange(inputs.shape[1], device=device) < sizes[:, None]
        with quiet(self.model):
            states = self.model.decode(inputs, self.model.encode(source, mask), memory_mask=mask)
            return list(self._losses(states[is_real], labels[is_real]).split(sizes.tolist()))

    def translations(self, sources: Rows, tokenizer: Tokenizer, width: int | None, most: int) -> list[list[int]]:
        """As `qkv translate` says them."""
        return translate_ids(self.model, tokenizer, sources, width=width, most=most)

    def _losses(self, states: Tensor, labels: Tensor) -> Tensor:
        """Of states (R, C)."""
        return word_costs(self.model.head, states, labels).cpu()


class HfScorer:
    """A model of transformers with its language-model head."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model.eval(), model.config
        context = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        self.context: int | None = context if isinstance(context, int) else None
        self.bounded = False  # if there is no position, the model says so itself
        self.kind = "encoder-decoder" if self.config.is_encoder_decoder else self._kind()

    @torch.inference_mode()
    def _kind(self) -> str:
        """By what it does: a decoder's first word can't depend on its second."""
        ids = torch.tensor([[0, 0], [0, 1]], device=self.model.device)
        first = getattr(self.model(input_ids=ids), "logits", None)
        if first is None or first.ndim != 3:
            raise wordless(self.model)
        return "decoder" if torch.allclose(first[0, 0], first[1, 0], atol=1e-4) else "encoder"

    @torch.inference_mode()
    def next_tokens(self, ids: Tensor, count: int) -> Tensor:
        """As many logits as are asked, where the model can be told."""
        ids = ids.to(self.model.device)
        parameters = inspect.signature(self.model.forward).parameters
        options = {
            name: value for name, value in (("logits_to_keep", count), ("use_cache", False)) if name in parameters
        }
        logits = self.model(input_ids=ids[:, :-1], **options).logits[:, -count:]  # (B, K, V)
        return losses(logits.flatten(0, 1), ids[:, -count:].flatten()).view(len(ids), count)

    @torch.inference_mode()
    def targets(self, sources: Rows, targets: Rows, tokenizer: Tokenizer) -> list[Tensor]:
        """The decoder begins as its config says."""
        start, end = self._start(tokenizer), tokenizer.ends[0]
        labels, sizes = pad([[*row, end] for row in targets], self.model.device)
        inputs, _ = pad([[start, *row] for row in targets], self.model.device)
        is_real = torch.arange(inputs.shape[1], device=inputs.device) < sizes[:, None]
        logits = self.model(**self._source(sources), decoder_input_ids=inputs, use_cache=False).logits
        return list(losses(logits[is_real], labels[is_real]).split(sizes.tolist()))

    @torch.inference_mode()
    def translations(self, sources: Rows, tokenizer: Tokenizer, width: int | None, most: int) -> list[list[int]]:
        """As the library's own `generate` says them."""
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
    """−log p (R,) of the tokens that are wanted (R,) by logits (R, V), in float64.

    >>> losses(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor([1.3863, 1.3863], dtype=torch.float64)
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return F.cross_entropy(logits, labels, reduction="none").double().cpu()


def start_token(tokenizer: Tokenizer) -> int:
    """What a decoder begins to speak with, where it also knows how to end."""
    if tokenizer.start is None or not tokenizer.ends:
        raise Problem("the tokenizer has no bos or no eos token, which a translation begins and ends with")
    return tokenizer.start
