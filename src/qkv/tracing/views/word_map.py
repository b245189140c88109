"""A map as people read it: tokens joined to whole characters or to words, on both sides, and where a word stands in it.

Joined weights are summed over the keys of a group and averaged over its queries, so that a row still adds up to 1; a
pair may attend if any of its tokens may.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .token_labels import Group, Tokens
from .traces import Floats, Trace, join


@dataclass(frozen=True)
class WordMap:
    """The weights of one head (N, M), N and M counted in groups, and what its rows and columns are."""

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
    """One head by "characters", "words" or "tokens"."""
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
    """The group that a word is in, or ends in: its number, and the group itself.

    >>> locate_word(Tokens(("<E6><88>", "<91>", "a"), whole=(("我", 0, 2), ("a", 2, 3))), "我")
    (0, ('我', 0, 2))
    """
    index = tokens.find(word) if isinstance(word, str) else word
    return next((i, group) for i, group in enumerate(tokens.groups(by)) if group[1] <= index < group[2])
