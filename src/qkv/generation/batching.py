"""Many texts at once: those of like length together, the answers in the order of the texts.

A batch is as long as its longest text, so lengths that differ much waste work on padding. Sorting everything would hold
every answer back until the last; so a window of texts is sorted, answered and handed over before the next begins.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Text = TypeVar("Text")
Answer = TypeVar("Answer")

ROWS, TOKENS, WINDOW = 64, 4096, 128  # of a batch: texts and tokens at most; texts of a window


def in_batches(
    texts: Sequence[Text], length: Callable[[Text], int], answer: Callable[[list[Text]], list[Answer]]
) -> Iterator[Answer]:
    """`answer` for each text, asked for some of like `length` at a time.

    >>> asked = []
    >>> list(in_batches(["ccc", "a", "bb"], len, lambda some: asked.append(some) or [s.upper() for s in some]))
    ['CCC', 'A', 'BB']
    >>> asked
    [['a', 'bb', 'ccc']]
    """
    for begin in range(0, len(texts), WINDOW):
        window = texts[begin : begin + WINDOW]
        lengths = [length(text) for text in window]
        answers: dict[int, Answer] = {}
        for batch in _cut(lengths):
            answers |= zip(batch, answer([window[i] for i in batch]), strict=True)
        yield from (answers[i] for i in range(len(window)))


def _cut(lengths: list[int]) -> Iterator[list[int]]:
    """Numbers of texts, the shortest first, in batches that are small enough."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and (len(batch) == ROWS or (len(batch) + 1) * lengths[i] > TOKENS):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
