"""Recall over a growing gap: one LSTM layer against one attention layer.

A row is a word, noise and a question: which word was it? The LSTM must carry the word through every step of the noise;
attention reads it directly, and computes all positions at once. Both see the same batches.

B batch, N tokens, C width.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import masks
from ..attention.heads import MultiHeadAttention
from ..attention.shapes import head_width
from ..i18n import _, say
from ..text.seeded_rng import dice
from ..train.optim import descend
from . import Course, Progress, Results, Row, report, small_step
from .report import Column, sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE_TOKENS = 8  # number of noise tokens; the question is one more
TEST_ROWS = 512
RECALLED = 0.9  # recall that counts as remembered
RATE, HEADS = 3e-3, 4


# Their names in a table, at the start of a sentence, and within one.
LABELS = {"lstm": _("LSTM"), "attention": _("attention")}
SUBJECTS = {"lstm": _("The LSTM"), "attention": _("Attention")}
OBJECTS = {"lstm": _("the LSTM"), "attention": _("attention")}


class LSTMModel(nn.Module):
    """One LSTM layer, computed step by step."""

    def __init__(self, vocab: int, width: int, symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, symbols)
        with torch.no_grad():  # an open forget gate at the start prevents early forgetting
            self.lstm.get_parameter("bias_ih_l0")[width : 2 * width] = 1.0

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the word (B, symbols) from ids (B, N)."""
        return self.head(self.lstm(self.embedding(ids))[0][:, -1])


class AttentionModel(nn.Module):
    """One causal attention layer, which computes all positions at once."""

    def __init__(self, vocab: int, width: int, symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.attention = MultiHeadAttention(width, HEADS)
        self.head = nn.Linear(width, symbols)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the word (B, symbols) from ids (B, N)."""
        x = self.embedding(ids)
        return self.head((x + self.attention(x, mask=masks.causal()))[:, -1])

    @torch.no_grad()
    def question_weights(self, ids: Tensor) -> Tensor:
        """Return the attention weights of the question over the tokens, mean over heads, (B, N)."""
        _, weights = self.attention(self.embedding(ids), mask=masks.causal(), weights=True)
        return weights[:, :, -1].mean(1)


KINDS: dict[str, type[LSTMModel] | type[AttentionModel]] = {"lstm": LSTMModel, "attention": AttentionModel}


def recall(gap: int, symbols: int, seed: int, step: int, rows: int) -> tuple[Tensor, Tensor]:
    """Return (ids (B, gap + 2), the first word of each row), a pure function of (seed, step).

    >>> ids, word = recall(3, symbols=8, seed=0, step=0, rows=1)
    >>> ids.shape, bool(ids[0, 0] == word[0]), int(ids[0, -1])
    (torch.Size([1, 5]), True, 16)
    """
    rng = dice(seed, step, stream=7)
    word = rng.integers(0, symbols, (rows, 1))
    busy_note = rng.integers(symbols, symbols + NOISE_TOKENS, (rows, gap))
    ids = np.concatenate([word, busy_note, np.full((rows, 1), symbols + NOISE_TOKENS)], 1)
    return torch.from_numpy(ids), torch.from_numpy(word[:, 0])


class Learner:
    """A model in training, with the seconds and the loss of each step."""

    def __init__(self, kind: str, width: int, symbols: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.kind, self.model = kind, KINDS[kind](symbols + NOISE_TOKENS + 1, width, symbols)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self.seconds: list[float] = []
        self.losses: list[float] = []

    def step(self, ids: Tensor, word: Tensor) -> None:
        """Run and time one training step."""
        start = time.perf_counter()
        loss = F.cross_entropy(self.model(ids), word)
        descend([self.optimizer], loss, clipped=self.model)
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(loss.item())

    @torch.no_grad()
    def evaluate(self, gap: int, ids: Tensor, word: Tensor) -> Row:
        """Return the row of results, with the accuracy on unseen rows."""
        row: Row = {
            "gap": gap,
            "kind": self.kind,
            "accuracy": float((self.model(ids).argmax(-1) == word).float().mean()),
            "seconds_per_step": float(np.median(self.seconds)),
            "chain": gap + 2 if self.kind == "lstm" else 1,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "losses": self.losses,
        }
        if isinstance(self.model, AttentionModel):
            row["weight_on_the_word"] = float(self.model.question_weights(ids)[:, 0].mean())
        return row


def measure(
    *, gaps: tuple[int, ...], symbols: int, steps: int, width: int, batch: int, seed: int, progress: Progress
) -> Results:
    """Train both models at every gap on the same batches, and test them on unseen rows."""
    head_width(width, HEADS)
    rows, load = [], report.load_per_core()

    def new_learners() -> list[Learner]:
        return [Learner(kind, width, symbols, seed) for kind in KINDS]

    def estimate(gap: int) -> float:
        learners, batch_rows = new_learners(), recall(gap, symbols, seed, 0, batch)

        def step() -> None:
            for learner in learners:
                learner.step(*batch_rows)

        return small_step(step)

    update = Course(progress, [estimate(gap) * steps for gap in gaps])
    for part, gap in enumerate(gaps):
        learners = new_learners()
        for step in range(steps):
            batch_rows = recall(gap, symbols, seed, step, batch)
            for learner in learners:
                learner.step(*batch_rows)
            update(part, (step + 1) / steps)
        batch_rows = recall(gap, symbols, seed, 10**9, TEST_ROWS)
        rows += [learner.evaluate(gap, *batch_rows) for learner in learners]
    return {"rows": rows, "chance": 1 / symbols, "threads": torch.get_num_threads(), "busy": load}


COLUMNS = (
    Column("lstm.gap"),
    Column("lstm.accuracy", report.share),
    Column("attention.accuracy", report.share),
    Column("lstm.seconds_per_step", report.duration),
    Column("attention.seconds_per_step", report.duration),
    Column("lstm.chain"),
    Column("attention.chain"),
    Column("attention.weight_on_the_word", ".2f"),
)


def tables(results: Results) -> list[report.Table]:
    """Return a table with a row per gap."""
    first, sizes = results["rows"][:2], results["sizes"]
    title = _(
        "Recall one of {symbols} words after a gap, {steps} training steps each; LSTM {lstm[parameters]:,} weights, "
        "attention {attention[parameters]:,}; chance {chance:share}"
    )
    title = sentence(title, lstm=first[0], attention=first[1], chance=results["chance"], **sizes)
    header = say(
        "gap|LSTM right|attention right|LSTM per step|attention per step|LSTM chain|attention chain|weight on the word"
    ).split("|")
    rows = [{"lstm": lstm, "attention": attention} for lstm, attention in _pairs(results)]
    return [report.table(title, header, COLUMNS, rows)]


def _pairs(results: Results) -> list[tuple[Row, Row]]:
    rows = results["rows"]
    return list(zip(rows[::2], rows[1::2], strict=True))


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Summarize the gap each model recalls over, and the time of a step."""
    for kind in KINDS:
        rows = [row for row in results["rows"] if row["kind"] == kind]
        recalled_gaps = [row["gap"] for row in rows if row["accuracy"] >= RECALLED]
        failures = [row for row in rows if row["accuracy"] < RECALLED]
        reach_text = _("{name} remembered the word over every gap up to {last}.")
        if failures and recalled_gaps:
            reach_text = _(
                "{name} remembered it over gaps up to {good}, and failed at {bad[gap]} ({bad[accuracy]:share} right; chance is {chance:share})."
            )
        elif failures:
            reach_text = _(
                "{name} remembered it over no gap, not even {bad[gap]} ({bad[accuracy]:share} right; chance is {chance:share}): give it more --steps."
            )
        # the shortest gap that it failed: beyond it, a lucky success doesn't count as reach
        values = dict(last=rows[-1]["gap"], good=max(recalled_gaps, default=0), bad=failures[0] if failures else None)
        yield sentence(reach_text, name=say(SUBJECTS[kind]), chance=results["chance"], **values)
    lstm, attention = _pairs(results)[-1]
    weight_text = _(
        "At gap {gap}, the question's attention puts {weight_on_the_word:.2f} of its weight on the word (an even share is {even:.2g})."
    )
    yield sentence(weight_text, even=1 / (attention["gap"] + 2), **attention)
    slower, faster = sorted((lstm, attention), key=lambda row: -row["seconds_per_step"])
    yield sentence(
        _(
            "A training step there took the LSTM {lstm[seconds_per_step]:duration} and attention "
            "{attention[seconds_per_step]:duration}: {faster} was {ratio:.1f} times as fast with {threads}. The LSTM's "
            "{lstm[chain]} steps each wait for the one before, whatever the machine; attention's positions wait for nobody, "
            "so many cores help it most, while its work grows with the square of the length."
        ),
        lstm=lstm,
        attention=attention,
        faster=say(OBJECTS[faster["kind"]]),
        ratio=slower["seconds_per_step"] / faster["seconds_per_step"],
        threads=report.threads(results["threads"]),
    )


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Plot recall and time per step against the gap, and the loss at the longest gap."""
    figure = report.canvas(1, 3, each=(3.9, 3.3))
    gaps = results["sizes"]["gaps"]
    titles = (say("recall of unseen rows"), say("time per training step"))
    for index, (quantity, title) in enumerate(zip(("accuracy", "seconds_per_step"), titles, strict=True)):
        axes = report.panel(figure, 1, 3, index + 1, title=title, x=say("gap (tokens)"))
        for kind, color in (("lstm", report.INK[1]), ("attention", report.INK[0])):
            values = [row[quantity] * (1e3 if index else 1) for row in results["rows"] if row["kind"] == kind]
            axes.plot(gaps, values, "o-", color=color, label=say(LABELS[kind]), markersize=4)
        axes.set_xscale("log", base=2)
        axes.set_xticks(gaps, [str(gap) for gap in gaps])
        if index:
            axes.set_ylabel(say("ms"), fontsize=9)
            axes.set_ylim(bottom=0)
        else:
            axes.axhline(results["chance"], color=report.INK[4], linestyle=":", linewidth=1, label=say("chance"))
            axes.set_ylim(0, 1.05)
        axes.legend(fontsize=8, frameon=False)
    title = say("loss while training, gap {value}", value=gaps[-1])
    axes = report.panel(figure, 1, 3, 3, title=title, x=say("step"))
    for row, color in zip(_pairs(results)[-1], (report.INK[1], report.INK[0]), strict=True):
        axes.plot(row["losses"], color=color, linewidth=1, label=say(LABELS[row["kind"]]))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)
    return report.finish(figure, path)
