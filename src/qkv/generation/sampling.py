"""Which token comes next: from logits to a choice, by the rules that `transformers` uses, in its order.

    repetition penalty → temperature → top-k → top-p → draw

B batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..i18n import Problem

if TYPE_CHECKING:  # torch is imported where it computes: settings are checked before it is loaded
    from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """How to choose: the likeliest (temperature 0), or a draw among the likely.

    temperature         divides the logits: below 1 bolder choices get rarer, 0 takes the likeliest
    top_k               only the k likeliest may be drawn
    top_p               only the likeliest that together have this probability
    repetition_penalty  above 1, tokens that were there before get less likely

    >>> import torch
    >>> logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    >>> Sampling(temperature=0.5, top_k=2).shape(logits).tolist()
    [[4.0, 2.0, -inf, -inf]]
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise Problem(
                "temperature is {value}: give 0 (the likeliest token) or more; 1 is as learned",
                value=str(self.temperature),
            )
        if self.top_k is not None and self.top_k < 1:
            raise Problem(
                "top_k is {value}: give how many tokens may be drawn, 1 or more, or None for all", value=self.top_k
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise Problem(
                "top_p is {value}: give a probability above 0 and up to 1, or None for all", value=str(self.top_p)
            )
        if not self.repetition_penalty > 0:
            raise Problem(
                "repetition_penalty is {value}: give 1 for none, above 1 for fewer repeats",
                value=str(self.repetition_penalty),
            )

    @property
    def needs_history(self) -> bool:
        """Does the choice depend on which tokens were there before?"""
        return self.repetition_penalty != 1.0

    def penalize(self, logits: Tensor, previous: Tensor | None = None) -> Tensor:
        """Logits (B, V) after the repetition penalty; `seen` (B, V) is True for tokens there before."""
        return (
            logits
            if not self.needs_history or previous is None
            else penalize(logits, previous, self.repetition_penalty)
        )

    def shape(self, logits: Tensor, previous: Tensor | None = None) -> Tensor:
        """Logits (B, V) as they are drawn from, −inf where nothing is."""
        logits = self.penalize(logits, previous)
        if self.temperature not in (0.0, 1.0):
            logits = logits / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k)[0][..., -1, None]
            logits = logits.masked_fill(logits < least, float("-inf"))
        if self.top_p is not None and self.top_p < 1:
            # From the least likely up: what lies within the first 1 − p is left out, the likeliest never.
            ordered, index = logits.sort(descending=False)
            out = ordered.softmax(-1).cumsum(-1) <= 1 - self.top_p
            out[..., -1] = False
            logits = logits.masked_fill(out.scatter(-1, index, out), float("-inf"))
        return logits

    def choose(self, logits: Tensor, uniform: Tensor, previous: Tensor | None = None) -> Tensor:
        """The next token of each row, (B,); `luck` (B,), from 0 up to 1, decides."""
        if self.temperature == 0:
            return (self.shape(logits, previous) if self.needs_history else logits).argmax(-1)
        import torch

        # One number per row against the running sum of probabilities: a row's choice can't depend on its batch mates.
        # 1 − luck is above 0 and at most 1, so a token without probability is never hit, not even by rounding.
        running = self.shape(logits, previous).softmax(-1).double().cumsum(-1)
        drawn = torch.searchsorted(running, (1 - uniform[:, None]) * running[:, -1:])[:, 0]
        # Where no token may come, or a temperature makes infinities of logits, there are no probabilities to draw by.
        return torch.where(running[:, -1].isnan(), logits.argmax(-1), drawn)


def penalize(scores: Tensor, previous: Tensor, penalty: float) -> Tensor:
    """Scores (B, V), less likely by the penalty where `seen` (B, V)."""
    import torch

    return torch.where(previous, torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def token_mask(texts: Sequence[Sequence[int]], like: Tensor) -> Tensor:
    """True for the tokens that are in each text, (B, V) as the scores that it is for."""
    import torch

    previous = torch.zeros_like(like, dtype=torch.bool)
    for row, text in zip(previous, texts, strict=True):
        row[list(text)] = True
    return previous


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse seeds that torch's generators can't take."""
    for seed in seeds:
        if not -(2**63) <= seed < 2**64:
            raise Problem("seed is {value}: give a whole number of at most 64 bits", value=seed)


def draws(seeds: Sequence[int], most: int) -> Tensor:
    """Numbers from 0 up to 1, (len(seeds), most), float64: a row follows from its seed alone, a shorter one begins alike.

    >>> bool((draws([3, 4], 5)[1, :2] == draws([4], 2)[0]).all())
    True
    """
    import torch

    check_seeds(seeds)
    rows = [torch.rand(most, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in seeds]
    return torch.stack(rows) if rows else torch.zeros(0, most, dtype=torch.float64)
