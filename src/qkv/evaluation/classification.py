"""Text classification by an encoder with head="classes": label probabilities, accuracy, precision and recall.

R texts, N tokens, L labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

import numpy as np
from torch import Tensor

from ..attention import masks
from ..generation.batching import in_batches
from ..generation.prefill import pad, quiet
from ..i18n import Notice, Problem, all_of
from ..model.transformer import Transformer
from ..text.tokenizer import Tokenizer

Progress = Callable[[int, int], object]


def classify(model: Transformer, tokenizer: Tokenizer, texts: Sequence[str]) -> list[dict[str, float]]:
    """Return the probability of each label for each text, the most likely first.

    >>> import torch
    >>> from ..text import Bytes
    >>> from ..model import Config
    >>> _ = torch.manual_seed(0)
    >>> small = dict(vocab=256, width=16, n_layer=1, n_head=2, pooler=True)
    >>> model = Transformer(Config(kind="encoder", head="classes", labels=("bad", "good"), **small)).eval()
    >>> [sorted(each) for each in classify(model, Bytes.make(), ["很好看"])]
    [['bad', 'good']]
    """
    token_rows = [text_ids(model, tokenizer, text) for text in texts]
    rows_ = in_batches(token_rows, len, lambda batch: probabilities(model, batch).tolist())
    labels = model.config.output.labels
    return [dict(sorted(zip(labels, row, strict=True), key=lambda each: -each[1])) for row in rows_]


def text_ids(model: Transformer, tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text as a classifier reads them, or raise a Problem if it can't."""
    require_classifier(model)
    tokens = tokenizer.encode(text)
    ids = tokenizer.frame(tokens)
    if not text.strip() or not ids:
        raise Problem("the text is empty: there is nothing to classify")
    unknown = tokens.count(tokenizer.unk) if tokenizer.unk is not None else 0
    if tokens and unknown == len(tokens):
        raise Problem(
            "this model knows none of the characters of {text}, so any such text would get the same label: use a model "
            "trained on this language",
            text=repr(text[:40]),
        )
    if 3 * unknown > len(tokens):
        warnings.warn(
            Notice(
                "this model doesn't know {n} of the {all} tokens of {text}: its label may mean nothing",
                n=unknown,
                all=len(tokens),
                text=repr(text[:40]),
            ),
            stacklevel=2,
        )
    if model.config.position == "learned" and len(ids) > model.config.context:
        raise Problem(
            "the text has {tokens} tokens and this model learned {context} positions: shorten it",
            tokens=len(ids),
            context=model.config.context,
        )
    return ids


def is_classifier(model: object) -> TypeGuard[Transformer]:
    """True if this is a `Transformer` with a classification head."""
    return isinstance(model, Transformer) and model.config.output.head == "classes"


def require_classifier(model: object) -> None:
    """Raise a Problem if the model is not a classifier."""
    if not is_classifier(model):
        raise Problem(
            "this model is not a classifier: train an encoder to be one, as in  qkv train classify --pairs reviews.tsv --from minilm"
        )


def probabilities(model: Transformer, rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the label probabilities (R, L) of tokenized texts."""
    with quiet(model):
        ids, lengths = pad([list(row) for row in rows], model.embedding.weight.device)  # (R, N)
        rule = None if len({len(row) for row in rows}) == 1 else masks.padding(lengths)
        return model(ids, mask=rule).double().softmax(-1).cpu()


class LabelledText(NamedTuple):
    """A line of a file: its text, its true label, and the predicted probability of each label."""

    line: int
    text: str
    label: str
    shares: tuple[float, ...]


class ClassNumbers(NamedTuple):
    """Precision, recall and F1 of one label, and how many texts have it."""

    label: str
    texts: int
    precision: float  # share of the texts predicted to have the label that have it
    recall: float  # share of the texts with the label that are predicted to have it
    f1: float


@dataclass(frozen=True)
class ClassScore:
    """Score of a classifier on labelled texts; `problems` lists the skipped lines with the reason."""

    labels: tuple[str, ...]
    lines: tuple[LabelledText, ...]
    problems: tuple[tuple[int, Problem], ...]

    def predicted(self, line: LabelledText) -> str:
        """Return the most likely label."""
        return self.labels[int(np.argmax(line.shares))]

    @property
    def confusion(self) -> np.ndarray:
        """Confusion matrix (L, L): rows are true labels, columns predicted labels."""
        table = np.zeros((len(self.labels),) * 2, dtype=np.int64)
        for line in self.lines:
            table[self.labels.index(line.label), int(np.argmax(line.shares))] += 1
        return table

    @property
    def accuracy(self) -> float:
        """Share of texts whose predicted label is right."""
        return float(np.trace(self.confusion)) / len(self.lines)

    @property
    def loss(self) -> float:
        """Mean −log of the probability of the true label, in nats per text."""
        right = [line.shares[self.labels.index(line.label)] for line in self.lines]
        return float(-np.log(np.maximum(right, 1e-300)).mean())

    @property
    def classes(self) -> list[ClassNumbers]:
        """Precision, recall and F1 of each label; 0 where the denominator is 0."""
        table, numbers = self.confusion, []
        for i, label in enumerate(self.labels):
            correct, predicted_count, actual_count = int(table[i, i]), int(table[:, i].sum()), int(table[i].sum())
            f1 = 2 * correct / max(predicted_count + actual_count, 1)
            numbers.append(
                ClassNumbers(label, actual_count, correct / max(predicted_count, 1), correct / max(actual_count, 1), f1)
            )
        return numbers

    @property
    def macro_f1(self) -> float:
        """Unweighted mean of F1 over the labels."""
        return float(np.mean([each.f1 for each in self.classes]))


def score_labels(
    model: Transformer, tokenizer: Tokenizer, lines: Sequence[tuple[int, str, str]], *, progress: Progress | None = None
) -> ClassScore:
    """Score a classifier on (line, text, label). Unreadable texts and unknown labels are skipped and listed in `problems`.

    >>> from ..text import Bytes
    >>> from ..model import Config
    >>> small = dict(vocab=256, width=16, n_layer=1, n_head=2, pooler=True)
    >>> model = Transformer(Config(kind="encoder", head="classes", labels=("bad", "good"), **small)).eval()
    >>> for parameter in model.parameters():
    ...     _ = parameter.data.zero_()
    >>> model.head.bias.data[1] = 1.0
    >>> score = score_labels(model, Bytes.make(), [(1, "yes", "good"), (2, "no", "bad"), (3, "hm", "so-so")])
    >>> score.accuracy, score.confusion.tolist(), [line for line, problem in score.problems]
    (0.5, [[0, 1], [0, 1]], [3])
    """
    require_classifier(model)
    labels = model.config.output.labels
    readable: list[tuple[int, str, str, list[int]]] = []
    problems: list[tuple[int, Problem]] = []
    for line, text, label in lines:
        try:
            if label not in labels:
                raise Problem(
                    "the label {label} was not seen in training: the model knows {labels}",
                    label=repr(label),
                    labels=all_of(labels),
                )
            readable.append((line, text, label, text_ids(model, tokenizer, text)))
        except Problem as problem:
            problems.append((line, problem))
    if not readable:
        if problems:
            first, why = problems[0]
            raise Problem("line {line}: {problem}", line=first, problem=why)
        raise Problem("there are no texts with labels: give at least one")

    def answer(batch: list[tuple[int, str, str, list[int]]]) -> list[LabelledText]:
        shares = probabilities(model, [ids for *_, ids in batch]).tolist()
        return [LabelledText(*each[:3], tuple(row)) for each, row in zip(batch, shares, strict=True)]

    scored = in_batches(readable, lambda each: len(each[3]), answer, progress)
    return ClassScore(labels, tuple(scored), tuple(problems))
