"""Sample the next token from logits, with the rules of `transformers` in its order.

    repetition penalty → temperature → top-k → top-p → draw

B batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..i18n import Problem

if TYPE_CHECKING:  # settings are checked before the slow import of torch
    from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """How to choose the next token: the most likely (temperature 0), or a random draw.

    temperature         divides the logits: below 1 unlikely tokens get rarer, 0 takes the most likely
    top_k               only the k most likely may be drawn
    top_p               only the most likely that together have this probability
    repetition_penalty  above 1, earlier tokens get less likely

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
        """True if the choice depends on the earlier tokens."""
        return self.repetition_penalty != 1.0

    def penalize(self, logits: Tensor, previous: Tensor | None = None) -> Tensor:
        """Return logits (B, V) after the repetition penalty; `previous` (B, V) is True for earlier tokens."""
        return (
            logits
            if not self.needs_history or previous is None
            else penalize(logits, previous, self.repetition_penalty)
        )

    def shape(self, logits: Tensor, previous: Tensor | None = None) -> Tensor:
        """Return the logits (B, V) to draw from, −inf for excluded tokens."""
        logits = self.penalize(logits, previous)
        if self.temperature not in (0.0, 1.0):
            logits = logits / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k)[0][..., -1, None]
            logits = logits.masked_fill(logits < least, float("-inf"))
        if self.top_p is not None and self.top_p < 1:
            # In ascending order, tokens within the first 1 − p of the probability are excluded, the most likely never.
            ordered, index = logits.sort(descending=False)
            out = ordered.softmax(-1).cumsum(-1) <= 1 - self.top_p
            out[..., -1] = False
            logits = logits.masked_fill(out.scatter(-1, index, out), float("-inf"))
        return logits

    def choose(self, logits: Tensor, uniform: Tensor, previous: Tensor | None = None) -> Tensor:
        """Return the next token of each row (B,), drawn by `uniform` (B,), random numbers in [0, 1)."""
        if self.temperature == 0:
            return (self.shape(logits, previous) if self.needs_history else logits).argmax(-1)
        import torch

        # One number per row against the cumulative probabilities: a row's choice doesn't depend on the rest of the batch.
        # 1 − uniform is above 0 and at most 1, so a token of probability 0 is never drawn, not even by rounding.
        running = self.shape(logits, previous).softmax(-1).double().cumsum(-1)
        drawn = torch.searchsorted(running, (1 - uniform[:, None]) * running[:, -1:])[:, 0]
        # If all tokens are excluded or a small temperature overflows the logits, the probabilities are NaN.
        return torch.where(running[:, -1].isnan(), logits.argmax(-1), drawn)


def penalize(scores: Tensor, previous: Tensor, penalty: float) -> Tensor:
    """Return scores (B, V) with the penalty applied where `previous` (B, V)."""
    import torch

    return torch.where(previous, torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def token_mask(texts: Sequence[Sequence[int]], like: Tensor) -> Tensor:
    """Return a mask (B, V), True for the tokens that occur in each text; `like` gives its shape."""
    import torch

    previous = torch.zeros_like(like, dtype=torch.bool)
    for row, text in zip(previous, texts, strict=True):
        row[list(text)] = True
    return previous


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise a Problem for seeds that torch's generators don't accept."""
    for seed in seeds:
        if not -(2**63) <= seed < 2**64:
            raise Problem("seed is {value}: give a whole number of at most 64 bits", value=seed)


def draws(seeds: Sequence[int], most: int) -> Tensor:
    """Return random numbers in [0, 1), (len(seeds), most), float64. A row depends only on its seed, its prefix not on `most`.

    >>> bool((draws([3, 4], 5)[1, :2] == draws([4], 2)[0]).all())
    True
    """
    import torch

    check_seeds(seeds)
    rows = [torch.rand(most, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in seeds]
    return torch.stack(rows) if rows else torch.zeros(0, most, dtype=torch.float64)
