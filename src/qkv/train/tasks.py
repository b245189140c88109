"""The tasks: next word, hidden word, translation, chat answers and labels.

A task provides batches that are a pure function of (seed, step), their loss, and a sample of the model's output.
B batch, N tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .. import text
from ..attention import masks
from ..i18n import Problem
from ..model.transformer import Transformer
from ..text.conversations import Chats, Messages

Batch = tuple[Tensor, ...]
Forward = Callable[..., Tensor]  # a model, compiled, or wrapped by DDP


class Task(Protocol):
    """The interface that the training loop uses."""

    name: str
    tokenizer: text.Tokenizer

    def batch(self, seed: int, step: int, rows: int) -> Batch: ...
    def validation(self, rows: int, batches: int) -> Iterable[Batch]: ...
    def loss(self, model: Forward, batch: Batch) -> tuple[Tensor, Tensor]: ...
    def sample(self, model: Transformer) -> str: ...


class PairSource(Protocol):
    """Batches of sentence pairs, read from a file or generated."""

    @property
    def longest(self) -> int: ...
    def batch(self, seed: int, step: int, batch: int) -> text.PairBatch: ...


class BatchSource(Protocol):
    """Batches that are a pure function of (seed, step)."""

    def batch(self, seed: int, step: int, batch: int, /) -> Any: ...


Source = TypeVar("Source", bound=BatchSource)
Example = TypeVar("Example")


def summed_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of −log p over the labels, and their number: sums, so that parts of a batch add up exactly."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum"), count_labels(labels)


def count_labels(labels: Tensor) -> Tensor:
    """Return the number of labels that are not −100."""
    return (labels != -100).sum()


class WordTask:
    """A task with batches (words, labels), a label per word."""

    def loss(self, model: Forward, batch: Batch) -> tuple[Tensor, Tensor]:
        x, y = batch  # padding comes last, where causal attention never sees it
        return model(x, labels=y), count_labels(y)


class NextWord(WordTask):
    """Predict the next token at every position of a row, as GPT does."""

    name = "lm"

    def __init__(self, tokens: text.Dataset, tokenizer: text.Tokenizer, context: int) -> None:
        self.tokens, self.tokenizer, self.context = tokens, tokenizer, context
        _refuse_short(tokens, context)

    def batch(self, seed: int, step: int, rows: int) -> Batch:
        return _tensors(self.tokens.batch(seed, step, rows, self.context))

    def validation(self, rows: int, batches: int) -> Iterable[Batch]:
        return (_tensors(b) for b in self.tokens.validation_batches(rows, self.context, batches))

    def sample(self, model: Transformer) -> str:
        from ..generation.decoding import generate

        start = [int(i) for i in self.tokens.train[:1]]
        ids = generate(model, [start], most=min(120, self.context), temperature=0.8, seed=0)[0]
        return self.tokenizer.decode([*start, *ids])


class HeldOutTask(Generic[Source, Example]):
    """A task with a training source, a validation source, and examples for samples."""

    def __init__(self, train: Source, validation: Source, tokenizer: text.Tokenizer, examples: list[Example]) -> None:
        self.train, self.held_out, self.tokenizer, self.examples = train, validation, tokenizer, examples

    def batch(self, seed: int, step: int, rows: int) -> Batch:
        return self._to_batch(self.train.batch(seed, step, rows))

    def validation(self, rows: int, batches: int) -> Iterable[Batch]:
        return (self._to_batch(self.held_out.batch(0, number, rows)) for number in range(batches))

    def _to_batch(self, batch: Any) -> Batch:
        return _tensors(batch)


class Answers(WordTask, HeldOutTask[Chats, Messages]):
    """Predict the next token of the assistant's messages in chats. Examples are messages without an answer."""

    name = "chat"

    def sample(self, model: Transformer) -> str:
        from ..generation.decoding import generate

        prompts = [self.tokenizer.chat(messages) for messages in self.examples]
        answers = generate(model, prompts, most=60, stop=self.tokenizer.ends)
        questions = (messages[-1]["content"] for messages in self.examples)
        return "\n".join(
            f"{question} → {self.tokenizer.decode(answer)}" for question, answer in zip(questions, answers, strict=True)
        )


class HiddenWord(WordTask):
    """Predict hidden words from both sides, as BERT does."""

    name = "mlm"

    def __init__(
        self, tokens: text.Dataset, tokenizer: text.Tokenizer, context: int, share: float, framed: bool = False
    ) -> None:
        """`framed`: put each row between the tokenizer's special tokens, [CLS] … [SEP]."""
        self.tokens, self.tokenizer, self.share, self.framed = tokens, tokenizer, share, framed
        self.context = context - len(tokenizer.frame([])) * framed
        _refuse_short(tokens, self.context)
        if tokenizer.mask is None:
            raise Problem("the tokenizer has no [MASK] token: make it with special=('pad', 'mask', …)")

    def batch(self, seed: int, step: int, rows: int) -> Batch:
        x, _ = self.tokens.batch(seed, step, rows, self.context)
        return _tensors(self._hide(x, seed, step))

    def validation(self, rows: int, batches: int) -> Iterable[Batch]:
        for number, (x, _) in enumerate(self.tokens.validation_batches(rows, self.context, batches)):
            yield _tensors(self._hide(x, 10**9, number))

    def _hide(self, x: np.ndarray, seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
        tokenizer = self.tokenizer
        assert tokenizer.mask is not None
        x = np.array([tokenizer.frame(row) for row in x]) if self.framed else x
        return text.mlm(
            x, seed, step, mask=tokenizer.mask, vocab=tokenizer.vocab, special=tokenizer.special_ids, share=self.share
        )

    def sample(self, model: Transformer) -> str:
        x, labels = (part.to(model.embedding.weight.device) for part in next(iter(self.validation(1, 1))))
        with torch.no_grad():
            predicted = model(x)[0].argmax(-1)
        filled = torch.where(labels[0] >= 0, predicted, x[0])
        return f"{self.tokenizer.decode(x[0].tolist(), special=True)}\n→ {self.tokenizer.decode(filled.tolist())}"


class Translation(HeldOutTask[PairSource, str]):
    """Translate a sentence."""

    name = "translate"

    def _to_batch(self, batch: text.PairBatch) -> Batch:
        is_real = np.arange(batch.target_out.shape[1]) < batch.target_lengths[:, None]
        return _tensors(
            (batch.source, batch.source_lengths, batch.target_in, np.where(is_real, batch.target_out, -100))
        )

    def loss(self, model: Forward, batch: Batch) -> tuple[Tensor, Tensor]:
        source, lengths, target_in, labels = batch
        return model(target_in, source, source_mask=masks.padding(lengths), labels=labels), count_labels(labels)

    def sample(self, model: Transformer) -> str:
        from ..generation.decoding import translate

        translations = translate(model, self.tokenizer, self.examples, most=min(128, model.config.context))
        return "\n".join(
            f"{source} → {translation}" for source, translation in zip(self.examples, translations, strict=True)
        )


class Classification(HeldOutTask[text.LabelledTexts, tuple[str, str]]):
    """Predict the label of a text."""

    name = "classify"

    def loss(self, model: Forward, batch: Batch) -> tuple[Tensor, Tensor]:
        ids, lengths, labels = batch
        return model(ids, mask=masks.padding(lengths), labels=labels), count_labels(labels)

    def sample(self, model: Transformer) -> str:
        from ..evaluation.classification import probabilities

        rows = [self.held_out.rows[i] for i in range(len(self.examples))]
        labels, shares = model.config.output.labels, probabilities(model, rows)
        predictions = [f"{labels[int(row.argmax())]} {float(row.max()):.0%}" for row in shares]
        return "\n".join(
            f"{sentence} → {predicted} ({expected})"
            for (sentence, expected), predicted in zip(self.examples, predictions, strict=True)
        )


def _refuse_short(tokens: text.Dataset, context: int) -> None:
    """Refuse a text whose training or validation part is shorter than a row."""
    for split in ("train", "validation"):
        tokens.batch(0, 0, 1, context, split)


def _tensors(arrays: Iterable[np.ndarray]) -> Batch:
    return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
