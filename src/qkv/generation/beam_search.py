"""Beam search: extend the few most likely beginnings and return the text with the best total score.

R rows (the beams of all items, one item after the other), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..i18n import Problem
from ..model.transformer import Transformer
from ..text.generation_defaults import GenerationDefaults
from .prefill import Lengths, Prompts, Reading, as_rows, source_rows
from .token_constraints import obey, penalize


@dataclass(frozen=True)
class Candidate:
    """A text that the search found."""

    tokens: list[int]  # new tokens, without the stop token
    logprob: float  # of all tokens, including a stop token
    score: float  # logprob / length ** length_penalty, where length counts the stop token
    ended: bool  # by a stop token; False if cut off at `most`


def beam(
    model: Transformer,
    prompts: Prompts,
    *,
    width: int = 4,
    most: int = 128,
    stop: Sequence[int] = (),
    never: Sequence[int] = (),
    length_penalty: float = 1.0,
    best: int = 1,
    source: Prompts | None = None,
    source_lengths: Lengths | None = None,
    cache: bool = True,
    habits: GenerationDefaults | None = None,
) -> list[list[Candidate]]:
    """Return the `best` texts for each prompt, the highest score first.

    Each step extends every beam by every token. Of the `width` most likely extensions, those that end are set aside; the
    `width` most likely that don't end continue. The score is logprob / length ** length_penalty: 0 compares whole texts, 1
    the average token, more favours long texts. An item is done when `width` texts have ended and no beam scores better
    than the worst of them. Width 1 is greedy decoding; any width gives the result of transformers.
    Tokens in `never` are excluded. `habits` are the generation settings from the model's files.

    >>> from ..model.config import Config
    >>> _ = torch.manual_seed(0)
    >>> model = Transformer(Config(vocab=5, width=8, n_layer=1, n_head=2))
    >>> narrow, wide = (beam(model, [[1]], width=w, most=3, length_penalty=0)[0][0] for w in (1, 125))
    >>> wide.score >= narrow.score
    True
    """
    if width < 1 or not 1 <= best <= width:
        raise Problem(
            "width is {width} and best is {best}: give a width of 1 or more and ask for 1 to width texts",
            width=width,
            best=best,
        )
    if most < 1:
        raise Problem("most is {value}: give how many new tokens may come, 1 or more", value=most)
    rows = as_rows("prompt", prompts, model.config.vocab)
    if not rows:
        return []
    reading = Reading(model, rows, most=most, source=source, source_lengths=source_lengths, cache=cache)
    early = False if habits is None else habits.early_stopping
    search = _Search(len(rows), width, most, frozenset(int(i) for i in stop), length_penalty, early)
    sources = None if habits is None or source is None else source_rows(model, source, source_lengths)
    for n in range(1, most + 1):
        logprobs = reading.logits.double().log_softmax(-1).cpu()  # (R, V)
        if habits is not None:
            texts = [rows[i] + new for i, new in zip(search.items, search.generated, strict=True)]
            read = None if sources is None else [sources[i] for i in search.items]
            logprobs = penalize(logprobs, texts, habits.repetition_penalty)
            lengths = [len(rows[i]) for i in search.items]
            logprobs = obey(habits, logprobs, texts, lengths, last=n == most, ends=stop, sources=read)
        if never:
            logprobs[:, list(never)] = float("-inf")
        survivors = search.extend(logprobs, n)
        if not survivors:
            break
        reading.keep([row for row, _, _ in survivors])
        reading.feed(torch.tensor([token for _, token, _ in survivors]))
    return [texts[:best] for texts in search.candidates]


class _Search:
    """The beams and the finished texts of every item."""

    def __init__(
        self, items: int, width: int, most: int, ends: frozenset[int], length_penalty: float, early: bool | str
    ) -> None:
        self.width, self.most, self.ends = width, most, ends
        self.length_penalty, self.early = length_penalty, early
        self.items = list(range(items))  # item of each row
        self.generated: list[list[int]] = [[] for _ in range(items)]
        self.totals = torch.zeros(items, dtype=torch.float64)
        self.candidates: list[list[Candidate]] = [[] for _ in range(items)]

    def extend(self, logprobs: Tensor, n: int) -> list[tuple[int, int, float]]:
        """Add token n to every beam, given log probabilities (R, V); return the surviving beams as (row, token, logprob),
        grouped by item."""
        logprobs = self.totals[:, None] + logprobs
        survivors = []
        for item in sorted(set(self.items)):
            first, count = self.items.index(item), self.items.count(item)
            survivors += self._extend_item(item, first, logprobs[first : first + count], n)
        self.items, self.generated = (
            [self.items[row] for row, _, _ in survivors],
            [[*self.generated[row], token] for row, token, _ in survivors],
        )
        self.totals = torch.tensor([logprob for _, _, logprob in survivors], dtype=torch.float64)
        return survivors

    def _extend_item(self, item: int, first: int, logprobs: Tensor, n: int) -> list[tuple[int, int, float]]:
        vocab, candidates = logprobs.shape[1], logprobs.flatten()
        # Every beam may end in any stop token, and `width` other extensions are still needed.
        values, index = candidates.topk(min(max(2, 1 + len(self.ends)) * self.width, len(candidates)))
        continuing, texts = [], self.candidates[item]
        for rank, (logprob, position) in enumerate(zip(values.tolist(), index.tolist(), strict=True)):
            row, token = first + position // vocab, position % vocab
            if token not in self.ends and n < self.most:
                continuing.append((row, token, logprob))
            elif rank < self.width and logprob > float("-inf"):
                ended = token in self.ends
                text = self.generated[row] if ended else [*self.generated[row], token]
                texts.append(Candidate(text, logprob, logprob / n**self.length_penalty, ended))
        texts[:] = sorted(texts, key=lambda text: -text.score)[: self.width]
        finished = not continuing or (
            len(texts) == self.width and self._is_finished(continuing[0][2], n, texts[-1].score)
        )
        return [] if finished else continuing[: self.width]

    def _is_finished(self, best: float, n: int, worst: float) -> bool:
        """True if the best beam, after n tokens, can no longer beat the worst of `width` finished texts."""
        longest = self.most if self.early == "never" and self.length_penalty > 0 else n
        return self.early is True or best / longest**self.length_penalty <= worst
