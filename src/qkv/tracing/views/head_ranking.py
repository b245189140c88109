"""Rankings of heads, and the head to show first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from .word_map import locate_word

if TYPE_CHECKING:
    from ..study.survey import Progress
    from .traces import Trace

T = TypeVar("T")
HeadLink = tuple[int, int, float]  # layer, head, weight


def strongest(heads: Iterable[T], value: Callable[[T], float]) -> list[T]:
    """Sort heads by value, the highest first and NaN last; the order of equal ones is kept.

    >>> strongest([(0, 0.1), (1, math.nan), (2, 0.5), (3, 0.1)], lambda row: row[1])
    [(2, 0.5), (0, 0.1), (3, 0.1), (1, nan)]
    """
    values = [(value(head), head) for head in heads]
    return [head for _, head in sorted(values, key=lambda row: (math.isnan(row[0]), -row[0]))]


def links(
    trace: Trace, from_: int | str, to: int | str, by: str = "characters", *, part: str | None = None, batch: int = 0
) -> list[HeadLink]:
    """Return (layer, head, weight of `from_` on `to`) of every head, the strongest link between the two words first.

    A mixer's weight may be negative, which is a link as well.
    """
    queries, keys = _spans(trace, from_, to, by, part, batch)
    rows = []
    for layer in trace.layers(part):
        for head in range(trace.n_head(part, layer)):
            table = trace.head(layer, head, part, batch).weights(queries, keys)
            rows.append((layer, head, float(table.sum(1).mean())))
    return strongest(rows, lambda row: abs(row[2]))


def is_future_link(
    trace: Trace, from_: int | str, to: int | str, by: str = "characters", *, part: str | None = None, batch: int = 0
) -> bool:
    """True if `to` comes after `from_` and no layer lets `from_` see it, as in a causal model."""
    if part == "cross":  # rows and columns are different texts
        return False
    queries, keys = _spans(trace, from_, to, by, part, batch)
    if keys.start < queries.stop:
        return False
    return not any(trace.head(layer, 0, part, batch).allowed(queries, keys).any() for layer in trace.layers(part))


def _spans(trace: Trace, from_: int | str, to: int | str, by: str, part: str | None, batch: int) -> tuple[range, range]:
    """Return the rows of the word `from_` and the columns of the word `to`."""
    spans = []
    for word, side in ((from_, False), (to, True)):
        _, (_, first, end) = locate_word(trace.tokens(part, batch, keys=side), word, by)
        spans.append(range(first, end))
    return spans[0], spans[1]


def head_to_show(
    trace: Trace,
    part: str,
    layer: int | None = None,
    head: int | None = None,
    *,
    linked: Sequence[HeadLink] | None = None,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Return (layer, head) to show, among those of this layer and with this number if given.

    That is the first of `linked`, a ranking of heads, or else the most telling one of a survey.
    """
    layers = trace.layers(part) if layer is None else (layer,)
    heads = range(trace.n_head(part, layer)) if head is None else range(head, head + 1)
    trace.head(layers[0], heads[0], part)  # refuses what isn't there
    if linked is not None:
        return next((at, number) for at, number, _ in linked if at in layers and number in heads)
    if len(layers) == len(heads) == 1:
        return layers[0], heads[0]
    return trace.survey(part, progress).most_telling(layers, heads)
