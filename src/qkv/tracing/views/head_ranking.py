"""Which head is best at something: every ranking of heads, and which of them to show first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from .word_map import locate_word

if TYPE_CHECKING:
    from ..study.survey import Progress
    from .traces import Trace

T = TypeVar("T")
HeadLink = tuple[int, int, float]  # layer, head, the weight that it gives


def strongest(heads: Iterable[T], value: Callable[[T], float]) -> list[T]:
    """The highest value first; equals stay as they came, and what can't be told (NaN) is last.

    >>> strongest([(0, 0.1), (1, math.nan), (2, 0.5), (3, 0.1)], lambda row: row[1])
    [(2, 0.5), (0, 0.1), (3, 0.1), (1, nan)]
    """
    values = [(value(head), head) for head in heads]
    return [head for _, head in sorted(values, key=lambda row: (math.isnan(row[0]), -row[0]))]


def links(
    trace: Trace, from_: int | str, to: int | str, by: str = "characters", *, part: str | None = None, batch: int = 0
) -> list[HeadLink]:
    """Every head, the one that links two words most strongly first: (layer, head, the weight `from_` gives `to`).

    A mixer's weight may be below 0, which is a link as well.
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
    """The rows of the word that looks, and the columns of the word that is looked at."""
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
    """The head to show of this layer and with this number (of all where nothing is said): the first of those that link
    two words, where these were ranked; else the most telling one, for which every head is looked at."""
    layers = trace.layers(part) if layer is None else (layer,)
    heads = range(trace.n_head(part, layer)) if head is None else range(head, head + 1)
    trace.head(layers[0], heads[0], part)  # refuses what isn't there
    if linked is not None:
        return next((at, number) for at, number, _ in linked if at in layers and number in heads)
    if len(layers) == len(heads) == 1:
        return layers[0], heads[0]
    return trace.survey(part, progress).most_telling(layers, heads)
