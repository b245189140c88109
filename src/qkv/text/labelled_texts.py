"""Texts with labels for classification: read from TSV, batched by similar length, a function of (seed, step).

Legend: B batch, N tokens of the longest text of a batch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..i18n import Message, Problem, all_of
from .length_batches import Pools
from .pairs import Text, lines, pad
from .tokenizer import Tokenizer

MANY = 20  # above so many labels, a column with mostly distinct entries is not a column of labels


class LabelledBatch(NamedTuple):
    """Padded ids (int64), lengths and label numbers.

    >>> from .tokenizer import Characters
    >>> texts = LabelledTexts([("abc", "x"), ("b", "y")], ("x", "y"), Characters.make("abc"), most=9)
    >>> batch = next(texts.batches(2))
    >>> batch.ids.tolist(), batch.lengths.tolist(), batch.labels.tolist()
    ([[1, 0, 0], [0, 1, 2]], [1, 3], [1, 0])
    """

    ids: np.ndarray  # (B, N)
    lengths: np.ndarray  # (B,)
    labels: np.ndarray  # (B,)


def read_labelled(path: str | Path) -> list[Text]:
    r"""Return the (text, label) lines of a UTF-8 file, separated by a TAB; raise with the line number for other lines.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "reviews.tsv")
    ...     _ = file.write_text("很好看\tgood\n一般\tbad\n", encoding="utf-8")
    ...     print(read_labelled(file))
    [('很好看', 'good'), ('一般', 'bad')]
    """
    path, texts = Path(path), []
    for number, line in lines(path):
        cells = [cell.strip() for cell in line.split("\t")]
        location = {"number": number, "path": path, "line": repr(line[:40])}
        if len(cells) != 2:
            columns = Message("1 column") if len(cells) == 1 else Message("{n} columns", n=len(cells))
            raise Problem(
                "line {number} of {path} has {there}, not 2 ({line}): write text TAB label", **location, there=columns
            )
        if not all(cells):
            raise Problem("line {number} of {path} has an empty text or label ({line})", **location)
        texts.append((cells[0], cells[1]))
    if not texts:
        raise Problem("{path} has no lines: put a text on each, text TAB label", path=path)
    return texts


def labels_of(texts: Sequence[Text], source: object) -> tuple[str, ...]:
    """Return the sorted labels; raise if there are too few or too many to classify by.

    >>> labels_of([("good", "pos"), ("bad", "neg"), ("fine", "pos")], "reviews.tsv")
    ('neg', 'pos')
    """
    labels = sorted({label for _, label in texts})
    if len(labels) == 1:
        raise Problem(
            "all {n} texts of {source} have one label, {label}: classification needs two labels or more",
            n=len(texts),
            source=source,
            label=repr(labels[0]),
        )
    if len(labels) > MANY and len(labels) > len(texts) / 2:
        raise Problem(
            "{source} has {labels} labels in {n} lines (such as {some}), most of them once: the label is the second "
            "column, text TAB label",
            source=source,
            labels=len(labels),
            n=len(texts),
            some=all_of(repr(label[:20]) for label in labels[:3]),
        )
    return tuple(labels)


class LabelledTexts:
    """Encoded texts with labels in batches of similar length; texts longer than `most` tokens are cut.

    `cut` counts those texts; `unknown` is the share of unknown tokens.

    >>> from .tokenizer import Characters
    >>> texts = LabelledTexts([("abc", "x"), ("b", "y")], ("x", "y"), Characters.make("abc"), most=2)
    >>> len(texts), texts.cut, texts.batch(seed=0, step=0, batch=2).ids.shape
    (2, 1, (2, 2))
    """

    def __init__(self, texts: Sequence[Text], labels: Sequence[str], tokenizer: Tokenizer, most: int) -> None:
        numbers = {label: i for i, label in enumerate(labels)}
        self.labels = [numbers[label] for _, label in texts]
        room = most - len(tokenizer.frame([]))
        rows = tokenizer.encode_batch([text for text, _ in texts])
        self.cut = sum(len(row) > room for row in rows)
        tokens = np.array([i for row in rows for i in row])
        self.unknown = float((tokens == tokenizer.unk).mean()) if len(tokens) and tokenizer.unk is not None else 0.0
        self.rows = [tokenizer.frame(row[:room]) for row in rows]
        self.pad = tokenizer.pad or 0
        self.pools = Pools([len(row) for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, seed: int, step: int, batch: int) -> LabelledBatch:
        """Return batch number `step`, counted across epochs."""
        return self._take(self.pools.batch(seed, step, batch))

    def batches(self, batch: int) -> Iterator[LabelledBatch]:
        """Return batches with every text once, in order of length, for evaluation.

        >>> from .tokenizer import Characters
        >>> texts = LabelledTexts([("abc", "x"), ("b", "y"), ("ab", "x")], ("x", "y"), Characters.make("abc"), most=9)
        >>> [batch.lengths.tolist() for batch in texts.batches(2)]
        [[1, 2], [3]]
        """
        return map(self._take, self.pools.in_order(batch))

    def _take(self, indices: np.ndarray) -> LabelledBatch:
        ids, lengths = pad([self.rows[i] for i in indices], self.pad)
        return LabelledBatch(ids, lengths, np.array([self.labels[i] for i in indices]))
