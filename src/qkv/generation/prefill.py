"""State of a model during generation: its cache, and the logits of the next token.

The prompts are read first (prefill), at once or, for layers with a state, in pieces, so that memory doesn't grow with the
prompt; then each step adds one token per row (decode). Rows can be dropped, reordered or duplicated between steps, as
finished texts and beam search need.

R rows, N tokens, M source tokens, C model width, V vocabulary.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ..attention import masks
from ..i18n import Message, Notice, Problem, _
from ..mixers.state_cache import StateCache
from ..model.thin_matmul import logits_of
from ..model.transformer import Transformer
from .decode_step import Step, can_step

Prompts = Sequence[Sequence[int]] | Tensor
Lengths = Sequence[int] | Tensor
PIECE = 1024  # tokens read at a time by a model with a state
NAMES = {"prompt": Message("prompt"), "source": Message("source")}


class Reading:
    """Read prompts and provide `logits` (R, V) of the next token of each row.

    `most` is the number of tokens that may follow the prompts; the cache is allocated once for them. With `cache=False`
    every step reads all tokens again: the same logits, more slowly.

    >>> from ..model.config import Config
    >>> model = Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)).eval()
    >>> reading = Reading(model, [[1, 2, 3], [4]], most=2)
    >>> reading.feed(torch.tensor([5, 6]))
    >>> reading.logits.shape, reading.lengths.tolist()
    (torch.Size([2, 9]), [4, 2])
    """

    def __init__(
        self,
        model: Transformer,
        prompts: Prompts,
        *,
        most: int,
        source: Prompts | None = None,
        source_lengths: Lengths | None = None,
        cache: bool = True,
    ) -> None:
        self.model = model
        device = model.embedding.weight.device
        rows = as_rows("prompt", prompts, model.config.vocab)
        if model.decoder is None:
            raise Problem("this model is an encoder, which reads but doesn't go on: use fill for its [MASK] tokens")
        check_context(model, rows, most)
        self.ids, self.lengths = pad(rows, device)  # (R, N), (R,)
        self.ragged = len({len(row) for row in rows}) > 1
        self.memory: Tensor | None = None  # (R, M, C)
        self.memory_lengths: Tensor | None = None  # (R,)
        self.memory_mask: masks.Mask | None = None
        with quiet(model):
            if model.encoder is not None:
                self._read_source(source, source_lengths, len(rows))
            elif source is not None:
                raise Problem("this model is a decoder and reads no source: put that text into the prompt")
            self.cache = None
            room = max(map(len, rows)) + most
            # All tokens so far, if the model may have to read them again.
            self._all_rows = rows if cache and model.grows(room) else None
            if cache:
                memory = 0 if self.memory is None else self.memory.shape[1]
                self.cache = model.new_cache(len(rows), room, memory=memory)
            self._read(self.ids)
            self._step = Step(model, self.cache) if self.cache is not None and can_step(model, self.cache) else None

    def _read_source(self, source: Prompts | None, lengths: Lengths | None, rows: int) -> None:
        if source is None:
            raise Problem("this model is an encoder-decoder: give source=, the tokens it should read first")
        sources = source_rows(self.model, source, lengths)
        if len(sources) != rows:
            raise Problem(
                "there are {rows} prompts but {sources} sources: give one source per prompt",
                rows=rows,
                sources=len(sources),
            )
        check_context(self.model, sources, 0, "source")
        ids, self.memory_lengths = pad(sources, self.ids.device)
        if len({len(row) for row in sources}) > 1:
            self.memory_mask = masks.padding(self.memory_lengths)
        self.memory = self.model.encode(ids, self.memory_mask)

    def feed(self, tokens: Tensor) -> None:
        """Append one token to each row; tokens is (R,)."""
        tokens = tokens.to(self.ids.device)
        with quiet(self.model):
            if self.cache is None:
                self.ids = torch.cat([self.ids, torch.zeros_like(self.ids[:, :1])], 1)
                self.ids[torch.arange(len(tokens), device=tokens.device), self.lengths] = tokens
                self.lengths = self.lengths + 1
                self._read(self.ids)
                return
            if self._all_rows is not None:
                self._all_rows = [[*row, int(token)] for row, token in zip(self._all_rows, tokens, strict=True)]
                longest = max(map(len, self._all_rows))
                if self.model.grows(longest, longest - 1):  # the cache is no longer valid
                    self.ids, self.lengths = pad(self._all_rows, self.ids.device)
                    self.ragged = len({len(row) for row in self._all_rows}) > 1
                    self.cache.reset()
                    self._read(self.ids)
                    return
            self.lengths = self.lengths + 1
            if self._step is not None:
                self.logits = logits_of(self.model, self._step(tokens, self.memory_mask))
            else:
                self.logits = logits_of(self.model, self._decode(tokens[:, None])[:, -1])

    def keep(self, index: Sequence[int]) -> None:
        """Replace row i by row index[i]; other rows are dropped."""
        if list(index) == list(range(len(self.lengths))):
            return
        with quiet(self.model):
            indices = torch.tensor(list(index), dtype=torch.long, device=self.ids.device)
            self.lengths, self.logits = self.lengths[indices], self.logits[indices]
            if self.cache is None:
                self.ids = self.ids[indices]
            else:
                self.cache.reorder(indices)
            if self._all_rows is not None:
                self._all_rows = [self._all_rows[i] for i in index]
            if self.memory is not None and self.memory_lengths is not None:
                self.memory, self.memory_lengths = self.memory[indices], self.memory_lengths[indices]
                if self.memory_mask is not None:
                    self.memory_mask = masks.padding(self.memory_lengths)

    def _read(self, ids: Tensor) -> None:
        carries = self.cache is not None and any(isinstance(layer, StateCache) for layer in self.cache.layers)
        size, rows = PIECE if carries else ids.shape[1], torch.arange(len(ids), device=ids.device)
        last = self.model.embedding.weight.new_empty(len(ids), self.model.config.width)  # (R, C)
        for start in range(0, ids.shape[1], size):
            piece = ids[:, start : start + size]
            remaining = self.lengths - start  # tokens of each row from this piece on
            if self.cache is not None and self.ragged:
                self.cache.expect(remaining.clamp(0, piece.shape[1]))
            states = self._decode(piece)  # (R, n, C)
            # Padding comes after a row's last token and so changes nothing before it.
            ends = (remaining > 0) & (remaining <= piece.shape[1])
            last = torch.where(ends[:, None], states[rows, remaining.clamp(1, piece.shape[1]) - 1], last)
        self.logits = logits_of(self.model, last)  # (R, V)

    def _decode(self, ids: Tensor) -> Tensor:
        return self.model.decode(ids, self.memory, memory_mask=self.memory_mask, cache=self.cache)


@contextmanager
def quiet(model: Transformer) -> Iterator[None]:
    """Context without gradients and dropout; the training mode is restored afterwards."""
    training = model.training
    if training:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        if training:
            model.train()


def as_rows(what: str, prompts: Prompts, vocab: int) -> list[list[int]]:
    """Return token ids as lists, after checking that none is empty or outside of the vocabulary."""
    if isinstance(prompts, Tensor):
        if prompts.ndim != 2:
            raise Problem(
                "{what}s are {shape}: give (batch, tokens), or a list of lists of token ids",
                what=NAMES[what],
                shape=tuple(prompts.shape),
            )
        prompts = prompts.tolist()
    if any(isinstance(row, int | str) for row in prompts):  # a text, or the ids of one
        raise Problem(
            "{what}s are {given}: give a list of lists of token ids, such as [tokenizer.encode(text)]",
            what=NAMES[what],
            given=repr(prompts)[:40],
        )
    rows = [[int(i) for i in row] for row in prompts]
    for number, row in enumerate(rows):
        if not row:
            raise Problem(
                "{what} {number} is empty: give at least one token, such as the tokenizer's bos",
                what=NAMES[what],
                number=number,
            )
        if min(row) < 0 or max(row) >= vocab:
            wrong = next(i for i in row if not 0 <= i < vocab)
            raise Problem(
                "{what} {number} holds token {token}: this model knows 0 to {last}",
                what=NAMES[what],
                number=number,
                token=wrong,
                last=vocab - 1,
            )
    return rows


def source_rows(model: Transformer, source: Prompts, lengths: Lengths | None = None) -> list[list[int]]:
    """Return the tokens that the encoder reads, without padding."""
    rows = as_rows("source", source, model.config.read_vocab)
    return rows if lengths is None else [row[: int(n)] for row, n in zip(rows, lengths, strict=True)]


def pad(rows: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return rows padded on the right (R, N), and their lengths (R,)."""
    lengths = torch.tensor([len(row) for row in rows], device=device)
    longest = max(map(len, rows), default=0)
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=device), lengths


def check_context(model: Transformer, rows: list[list[int]], most: int, what: str = "prompt") -> None:
    """Raise a Problem if learned positions don't suffice (the last new token needs none); warn beyond other contexts."""
    context, longest = model.config.context, max(map(len, rows), default=0)
    if model.config.position != "learned":
        note_context(longest, context)
    elif longest + max(most - 1, 0) > context:
        sentence = _("the {what} has {longest} tokens, but this model learned {context} positions: shorten the {what}")
        if most:
            sentence = _(
                "the {what} has {longest} tokens and {most} more were asked for, but this model learned {context} positions: shorten the {what}"
            )
        if most and longest <= context:
            sentence = _(
                "the {what} has {longest} tokens and {most} more were asked for, but this model learned {context} positions: shorten the {what} or ask for {room} at most"
            )
        room = context - longest + 1
        raise Problem(sentence, what=NAMES[what], longest=longest, most=most, context=context, room=room)


def wordless(model: object) -> Problem:
    """Return the Problem of a model without a language-model head."""
    return Problem("{model} gives states, not words: load it with its language-model head", model=type(model).__name__)


def note_context(tokens: int, context: int | None) -> dict[str, int]:
    """Warn if a text is longer than its model's context, and return {"context": …} in that case, else {}."""
    if context is None or tokens <= context:
        return {}
    warnings.warn(
        Notice(
            "the text has {tokens} tokens and the model's context is {context}: the numbers are what the model "
            "computes, but it never learned texts that long",
            tokens=tokens,
            context=context,
        ),
        stacklevel=3,
    )
    return {"context": context}
