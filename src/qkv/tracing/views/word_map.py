"""Maps whose tokens are joined to whole characters or words, on both sides.

Weights are summed over the keys of a group and averaged over its queries, so that a row still sums to 1. A pair may attend
if any of its tokens may.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .token_labels import Group, Tokens
from .traces import Floats, Trace, join


@dataclass(frozen=True)
class WordMap:
    """The weights of one head (N, M), N and M in groups, and the groups of its rows and columns."""

    weights: Floats
    queries: list[Group]
    keys: list[Group]
    allowed: NDArray[np.bool_]
    special: tuple[list[bool], list[bool]]  # of the queries, of the keys

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """Labels of the queries and of the keys."""
        return [text for text, _, _ in self.queries], [text for text, _, _ in self.keys]


def view(
    trace: Trace, layer: int, head: int, by: str = "characters", *, part: str | None = None, batch: int = 0
) -> WordMap:
    """Return the map of one head by "characters", "words" or "tokens"."""
    sides = [trace.tokens(part, batch, keys=side) for side in (False, True)]
    queries, keys = (side.groups(by) for side in sides)
    allowed = trace.head(layer, head, part, batch).allowed().numpy()
    for axis, groups in enumerate((queries, keys)):
        allowed = np.logical_or.reduceat(allowed, [first for _, first, _ in groups], axis=axis)
    special = [
        [any(side.special[first:end]) for _, first, end in groups]
        for side, groups in zip(sides, (queries, keys), strict=True)
    ]
    weights = join(trace.map(layer, head, part=part, batch=batch), queries, keys)
    return WordMap(weights, queries, keys, allowed, (special[0], special[1]))


def locate_word(tokens: Tokens, word: int | str, by: str = "characters") -> tuple[int, Group]:
    """Return the index of the group in which a word ends, and the group.

    >>> locate_word(Tokens(("<E6><88>", "<91>", "a"), whole=(("我", 0, 2), ("a", 2, 3))), "我")
    (0, ('我', 0, 2))
    """
    index = tokens.find(word) if isinstance(word, str) else word
    return next((i, group) for i, group in enumerate(tokens.groups(by)) if group[1] <= index < group[2])
