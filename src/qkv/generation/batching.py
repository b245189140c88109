"""Batches of texts of similar length, with answers in the order of the texts.

A batch is as long as its longest text, so mixing lengths wastes work on padding. Sorting all texts would delay the first
answer until the end, so texts are sorted and answered window by window.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Text = TypeVar("Text")
Answer = TypeVar("Answer")

ROWS, TOKENS, WINDOW = 64, 4096, 128  # limits: texts per batch, tokens per batch, texts per window


def in_batches(
    texts: Sequence[Text],
    length: Callable[[Text], int],
    answer: Callable[[list[Text]], list[Answer]],
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[Answer]:
    """Yield `answer` of each text, called on batches of texts of similar `length`; `progress` counts answered texts.

    >>> batches = []
    >>> list(in_batches(["ccc", "a", "bb"], len, lambda batch: batches.append(batch) or [s.upper() for s in batch]))
    ['CCC', 'A', 'BB']
    >>> batches
    [['a', 'bb', 'ccc']]
    """
    for begin in range(0, len(texts), WINDOW):
        window = texts[begin : begin + WINDOW]
        lengths = [length(text) for text in window]
        answers: dict[int, Answer] = {}
        for batch in _cut(lengths):
            answers |= zip(batch, answer([window[i] for i in batch]), strict=True)
            if progress is not None:
                progress(begin + len(answers), len(texts))
        yield from (answers[i] for i in range(len(window)))


def _cut(lengths: list[int]) -> Iterator[list[int]]:
    """Yield batches of text indices, the shortest texts first."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and (len(batch) == ROWS or (len(batch) + 1) * lengths[i] > TOKENS):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
