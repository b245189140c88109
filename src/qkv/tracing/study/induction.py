"""Find induction heads with a repeated block of random tokens.

    a b c d … a b c d …        at the second b, an induction head attends to the token after the first b: c

Such a text has no structure but the repetition, so grammar or habits of a language can't explain the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...i18n import Problem, say
from ..record.model_protocol import model_of
from ..record.recorder import trace
from .patterns import patterns


@dataclass(frozen=True)
class Induction:
    """The result of the test: per head, the mean weight on the token that followed the same token before."""

    scores: np.ndarray  # (layers, heads), NaN where a layer has no attention
    baseline: float
    count: int  # queries
    length: int
    repeats: int

    def best(self, most: int = 5) -> list[tuple[int, int, float]]:
        """Return (layer, head, score), strongest first."""
        order = np.argsort(-self.scores, axis=None, kind="stable")[: min(most, int((~np.isnan(self.scores)).sum()))]
        indices = (np.unravel_index(i, self.scores.shape) for i in order)
        return [(int(layer), int(head), float(self.scores[layer, head])) for layer, head in indices]

    def show(self, lang: str | None = None, most: int = 10) -> str:
        """Return a line for each of the strongest heads."""
        title = say(
            "Induction test, {length} random tokens {repeats} times over; a head that spreads its weight evenly "
            "gets {baseline}:",
            lang,
            length=self.length,
            repeats=self.repeats,
            baseline=self.baseline,
        )
        return "\n".join([title, *(f"  {f'{a}.{b}':>6}  {score:.2f}" for a, b, score in self.best(most))])

    def __str__(self) -> str:
        return self.show()


def induction_test(
    model: object,
    *,
    vocab: int | Sequence[int],
    length: int | None = None,
    repeats: int = 2,
    seed: int = 0,
    batch: int = 4,
    part: str | None = None,
) -> Induction:
    """Score every head for induction on a repeated block of random tokens.

    `vocab` is the number of tokens or the ids to draw from (without special ones); the tokens of a block differ. `length` is
    that of a block: by default 50, or the number of ids if that is less. Scores are means over `batch` blocks.
    """
    ids = np.arange(vocab) if isinstance(vocab, int) else np.asarray(list(vocab))
    length = min(50, len(ids)) if length is None else length
    if not 2 <= length <= len(ids) or repeats < 2 or batch < 1:
        raise Problem(
            "a block of {length} different tokens out of {vocab}, {repeats} times, {batch} blocks: give a length "
            "from 2 to {vocab}, at least 2 repeats and 1 block",
            length=length,
            vocab=len(ids),
            repeats=repeats,
            batch=batch,
        )
    rng = np.random.default_rng(seed)
    blocks = [np.tile(rng.choice(ids, length, replace=False), repeats).tolist() for _ in range(batch)]
    recorded = trace(model, blocks, target=blocks if model_of(model).kind == "encoder-decoder" else None)
    part = part or ("decoder" if "decoder" in recorded.parts else recorded.parts[0])
    tables = [patterns(recorded, part=part, batch=i) for i in range(batch)]
    scores = np.mean([table.array("induction") for table in tables], 0)
    rows = [table.table[0].scores["induction"] for table in tables]
    return Induction(
        scores, float(np.mean([row.baseline for row in rows])), sum(row.count for row in rows), length, repeats
    )
