"""Six models of equal size that differ in their mixer, trained on a text and on recalling pairs.

The mixers are attention, window attention, retention, Mamba-2, the delta rule and a hybrid. Width, depth and vocabulary are
equal; a model whose mixer has more weights has a smaller feed-forward. Keys have the same width in all states.

B batch, N tokens.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from .. import text
from ..model.config import Config, EmbeddingSettings
from ..model.transformer import Transformer
from ..text.mlm_masking import IGNORED
from ..text.seeded_rng import dice
from ..train.optim import descend, make_optimizers, set_rate
from ..train.settings import Settings
from ..train.tasks import summed_loss
from . import Row

KINDS = ("attention", "window", "retention", "mamba2", "delta", "hybrid")
HEADS = 4
HIDDEN = 2  # times the width: the feed-forward of the attention model, whose size the others match,
MIN_HIDDEN = 0.25  # unless a mixer alone is as large: then all grow until its feed-forward has at least this width
BATCH_TOKENS = 1024  # per training step, approximately
TEST_TOKENS = 8192  # tokens of held-out text per loss
TEST_ANSWERS = 1024  # answers per accuracy
EVALUATIONS = 10  # on held-out text during training


class ContestShape(NamedTuple):
    """The sizes that the six models share."""

    width: int
    layers: int
    window: int
    state: int

    def config(self, kind: str, vocab: int, context: int) -> Config:
        """Return the config of this kind whose feed-forward brings its number of weights closest to the others.

        >>> from ..model.describe import parts
        >>> shape = ContestShape(width=64, layers=2, window=31, state=8)
        >>> [sum(p.parameters for p in parts(shape.config(kind, 64, 128))) for kind in ("attention", "delta", "hybrid")]
        [90496, 90608, 90312]
        """
        narrowest = max(int(MIN_HIDDEN * self.width), 1)
        target = max(
            _count(self._config("attention", vocab, context, HIDDEN * self.width)),
            *(_count(self._config(other, vocab, context, narrowest)) for other in KINDS),
        )
        weights_1, weights_2 = (_count(self._config(kind, vocab, context, hidden)) for hidden in (1, 2))
        return self._config(kind, vocab, context, max(1 + round((target - weights_1) / (weights_2 - weights_1)), 1))

    def _config(self, kind: str, vocab: int, context: int, hidden: int) -> Config:
        own: Row = {"mixer": kind}
        if kind in ("attention", "window"):
            own = {"mixer": "attention", "qk_norm": "rms", "window": self.window if kind == "window" else None}
        elif kind == "hybrid":
            own = {"mixer": f"mamba2×{self.layers - 1} attention", "qk_norm": "rms", "state_width": self.state}
        else:
            own["state_width"] = self.state
        sizes: Row = dict(vocab=vocab, width=self.width, n_layer=self.layers, n_head=HEADS, hidden=hidden)
        return Config(**sizes, context=context, embedding=EmbeddingSettings(tied=False), init="zero-out", **own)


@functools.cache
def _count(config: Config) -> int:
    with torch.device("meta"):
        return Transformer(config).count()


class ContestTask(Protocol):
    """A task: batches for training, and a score of a model."""

    vocab: int
    context: int
    evaluations: int

    def batch(self, seed: int, step: int) -> tuple[Tensor, Tensor]: ...
    def score(self, model: Transformer) -> list[float]: ...


class NextCharacter:
    """Predict the next character of a text; the score is the loss on its last tenth, which is not trained on."""

    evaluations = EVALUATIONS

    def __init__(self, source: str, context: int, most: int = 4_000_000) -> None:
        corpus = text.Corpus.of(source)
        border = corpus.cut()
        parts = [_read_text(corpus, *ends, most) for ends in ((corpus.start, border), (border, corpus.end))]
        tokenizer = text.train_tokenizer("auto", parts, special=())
        self.vocab, self.context = tokenizer.vocab, context
        self.data = text.Dataset.of(*(tokenizer.encode_array([part]) for part in parts))
        for split in ("train", "validation"):  # raises a Problem now if the text is too short
            self.data.batch(0, 0, 1, context, split)

    def batch(self, seed: int, step: int) -> tuple[Tensor, Tensor]:
        x, y = self.data.batch(seed, step, max(BATCH_TOKENS // self.context, 1), self.context)
        return torch.from_numpy(x.copy()), torch.from_numpy(y.copy())

    @torch.no_grad()
    def score(self, model: Transformer) -> list[float]:
        """Return the mean loss of held-out tokens, in nats."""
        total = counted = 0.0
        rows = max(BATCH_TOKENS // self.context, 1)
        for x, y in self.data.validation_batches(rows, self.context, max(TEST_TOKENS // BATCH_TOKENS, 1)):
            loss, count = summed_loss(model(torch.from_numpy(x.copy())), torch.from_numpy(y.copy()))
            total, counted = total + loss.item(), counted + int(count)
        return [total / counted]


def _read_text(corpus: text.Corpus, start: tuple[int, int], end: tuple[int, int], most: int) -> str:
    """Return the text between two positions, at most its first `most` characters."""
    read = ""
    for block in corpus.blocks(start, end):
        read += block.text
        if len(read) >= most:
            break
    return read[:most]


class Recall:
    """Recall the value of each key, after a list of key-value pairs.

    Training starts with few pairs and adds more over the first half of the steps: with many pairs from the start, some
    models take far longer to learn that keys select values.
    """

    evaluations = 1

    def __init__(self, pairs: tuple[int, ...], steps: int) -> None:
        self.pairs, self.steps, self.symbols = pairs, steps, pairs[-1]
        self.vocab, self.context = 2 * self.symbols, 3 * self.symbols

    def batch(self, seed: int, step: int) -> tuple[Tensor, Tensor]:
        choices = min(1 + 2 * len(self.pairs) * step // self.steps, len(self.pairs))
        pairs = self.pairs[int(dice(seed, step, stream=12).integers(choices))]
        return recall(pairs, self.symbols, seed, step, max(BATCH_TOKENS // (3 * pairs), 1))

    @torch.no_grad()
    def score(self, model: Transformer) -> list[float]:
        """Return the accuracy at each number of pairs, on unseen rows."""
        shares = []
        for pairs in self.pairs:
            x, y = recall(pairs, self.symbols, 0, 10**9, max(TEST_ANSWERS // pairs, 1))
            is_question = y != IGNORED
            shares.append(float((model(x).argmax(-1)[is_question] == y[is_question]).float().mean()))
        return shares


def recall(pairs: int, symbols: int, seed: int, step: int, rows: int) -> tuple[Tensor, Tensor]:
    """Return x: key value key value …, then all keys again in another order; and y: their values at these last positions.

    Keys of a row differ; they are 0 … symbols − 1, values symbols … 2·symbols − 1. A pure function of (seed, step).

    >>> x, y = recall(2, symbols=5, seed=0, step=0, rows=1)
    >>> x.tolist(), y.tolist()
    ([[3, 7, 0, 9, 0, 3]], [[-100, -100, -100, -100, 9, 7]])
    """
    rng = dice(seed, step, stream=11)
    keys = rng.random((rows, symbols)).argsort(1)[:, :pairs]
    values = rng.integers(symbols, 2 * symbols, (rows, pairs))
    order = rng.random((rows, pairs)).argsort(1)
    pairs_row = np.stack([keys, values], 2).reshape(rows, -1)  # (B, 2·pairs)
    x = np.concatenate([pairs_row, np.take_along_axis(keys, order, 1)], 1)  # (B, 3·pairs)
    y = np.concatenate([np.full_like(pairs_row, IGNORED), np.take_along_axis(values, order, 1)], 1)
    return torch.from_numpy(x), torch.from_numpy(y)


class TrainingRun:
    """Training of one model on one task; `rate` is Muon's for the matrices of blocks, AdamW uses half of it."""

    def __init__(self, config: Config, task: ContestTask, rate: float, steps: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.model, self.task, self.steps, self.seed = Transformer(config), task, steps, seed
        self.settings = Settings(steps=steps, seed=seed, lr=rate, adam_lr=rate / 2)
        self.optimizers = make_optimizers(self.model, self.settings)
        self.step_count, self.tokens, self.seconds = 0, 0, 0.0

    def step(self) -> None:
        """Run and time one training step."""
        x, y = self.task.batch(self.seed, self.step_count)
        start = time.perf_counter()
        set_rate(self.optimizers, self.settings.rate(self.step_count))
        loss, counted = summed_loss(self.model(x), y)
        descend(self.optimizers, loss / counted, clipped=self.model)
        self.seconds += time.perf_counter() - start
        self.step_count, self.tokens = self.step_count + 1, self.tokens + x.numel()

    def run(self, on_progress: Callable[[float], None] = lambda share: None) -> list[Row]:
        """Run all steps; return the score, tokens and seconds at each evaluation."""
        rows: list[Row] = []
        due = {max(round(self.steps * (i + 1) / self.task.evaluations), 1) for i in range(self.task.evaluations)}
        for step in range(1, self.steps + 1):
            self.step()
            if step in due:
                score = self.task.score(self.model)
                rows.append({"step": step, "tokens": self.tokens, "seconds": self.seconds, "score": score})
            on_progress(step / self.steps)
        return rows
