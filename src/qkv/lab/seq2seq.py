"""A GRU with additive attention (Bahdanau et al., 2014) against a Transformer, translating dates.

The GRU model encodes with one GRU and decodes with another, which attends to the source before every character.
The Transformer keeps attention and drops the recurrence. Both see the same dates and write ISO dates character by character;
their alignments show which source characters each output character attended to.

B batch, N source tokens, T target tokens, C width.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..attention import masks
from ..attention.additive import AdditiveAttention
from ..attention.shapes import head_width
from ..draw import figure_canvas
from ..generation.decoding import translate
from ..i18n import Problem, _, say
from ..model.config import Config, EmbeddingSettings
from ..model.transformer import Transformer
from ..text.dates import date_pair, date_tokenizer, not_a_date, read_date
from ..text.pairs import PairStream
from ..text.tokenizer import Tokenizer
from ..train.optim import descend, make_optimizers, set_rate
from ..train.settings import Settings
from ..train.tasks import Batch, Translation, summed_loss
from . import Course, Progress, Results, Row, report, small_step
from .report import Column, sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LENGTH = 12  # an ISO date has ten characters
YEAR_DIGITS = 4  # leading digits of an ISO date, which most sources contain
KINDS = ("gru", "transformer")
PILOT_DATES, PILOT_STEPS = 32, 3  # timed to predict the total time


LABELS = {"gru": _("GRU + additive attention"), "transformer": _("Transformer")}


class GRUTranslator(nn.Module):
    """Bidirectional GRU encoder and GRU decoder with additive attention (Bahdanau, 2014)."""

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.initial_state = nn.Linear(2 * width, width)
        self.attention = AdditiveAttention(width, 2 * width, width)
        self.decoder = nn.GRUCell(3 * width, width)
        self.head = nn.Linear(3 * width, vocab)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states of the source (B, N, 2C), and the initial state of the decoder (B, C)."""
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        return memory, torch.tanh(self.initial_state(last.transpose(0, 1).flatten(1)))

    def step(self, token: Tensor, state: Tensor, memory: Tensor, mask: masks.Mask) -> tuple[Tensor, Tensor, Tensor]:
        """Decode one character: return (logits (B, V), next state (B, C), attention weights (B, N))."""
        attended, weights = self.attention(state[:, None], memory, mask)
        state = self.decoder(torch.cat([self.embedding(token), attended[:, 0]], -1), state)
        return self.head(torch.cat([state, attended[:, 0]], -1)), state, weights[:, 0]

    def forward(self, target: Tensor, source: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (B, T, V) of every next character of a known target."""
        memory, state = self.encode(source, lengths)
        mask, logits = masks.padding(lengths), []
        for token in target.unbind(1):
            step_logits, state, _ = self.step(token, state, memory, mask)
            logits.append(step_logits)
        return torch.stack(logits, 1)

    @torch.no_grad()
    def generate(self, source: Tensor, lengths: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Decode greedily: return characters (B, MAX_LENGTH) and their attention weights (B, MAX_LENGTH, N)."""
        memory, state = self.encode(source, lengths)
        token = torch.full((len(source),), start)
        mask, outputs, weight_rows = masks.padding(lengths), [], []
        for _position in range(MAX_LENGTH):
            logits, state, weights = self.step(token, state, memory, mask)
            token = logits.argmax(-1)
            outputs.append(token)
            weight_rows.append(weights)
        return torch.stack(outputs, 1), torch.stack(weight_rows, 1)


def measure(*, steps: int, width: int, batch: int, tests: int, text: str, seed: int, progress: Progress) -> Results:
    """Train both models on the same batches, translate unseen dates, and align one of them."""
    if not text.strip():
        raise Problem("--date is empty: give a date, as in  15 November 2026")
    if read_date(text) is None:
        raise not_a_date(
            _(
                "--date is {text}, not a date in a form that the models learn: write one from {first} to {last} like "
                "{forms}"
            ),
            text,
        )
    head_width(width, 8)
    tokenizer = date_tokenizer()
    stream = PairStream(partial(date_pair, split="train"), tokenizer)
    task = Translation(stream, stream, tokenizer, [])
    gru, transformer = learners(tokenizer, steps, width, batch, seed)
    load = report.load_per_core()
    dates = [date_pair(seed, index, "unseen") for index in range(tests)]
    sources = [source for source, _ in dates]
    # Time a few translations; untrained models don't end by themselves, so this is an upper bound.
    pilot_sources = sources[:PILOT_DATES]
    translation_seconds = sum(small_step(partial(learner.translate, pilot_sources)) for learner in (gru, transformer))
    transformer.model.train()
    update = None
    start = time.perf_counter()
    for step in range(steps):
        rows = task.batch(seed, step, batch)
        for learner in (gru, transformer):
            learner.step(task, rows, transformer.settings.rate(step))
        if step + 1 == min(PILOT_STEPS, steps):
            step_seconds = gru.seconds[-1] + transformer.seconds[-1]
            training_seconds = time.perf_counter() - start + step_seconds * (steps - step - 1)
            update = Course(progress, [training_seconds, translation_seconds * tests / len(pilot_sources)])
        if update is not None:
            update(0, (step + 1) / steps)
    rows_json = [learner.evaluate(sources, [target for _, target in dates]) for learner in (gru, transformer)]
    alignments = [gru.align(text), transformer.align(text)]
    return {"rows": rows_json, "alignments": alignments, "threads": torch.get_num_threads(), "busy": load}


def learners(
    tokenizer: Tokenizer, steps: int, width: int, batch: int, seed: int
) -> tuple[GRULearner, TransformerLearner]:
    """Return both untrained models, the GRU with AdamW, the Transformer with the recipe of `qkv train`."""
    torch.manual_seed(seed)
    gru = GRUTranslator(tokenizer.vocab, width)
    config = Config(
        kind="encoder-decoder",
        vocab=tokenizer.vocab,
        width=width,
        n_layer=2,
        n_head=4,
        qk_norm="rms",
        embedding=EmbeddingSettings(tied=False),
        init="zero-out",
    )
    adamw = Settings(steps=steps, batch=batch, optimizer="adamw", lr=5e-3)
    return (
        GRULearner(gru, tokenizer, adamw),
        TransformerLearner(Transformer(config), tokenizer, Settings(steps=steps, batch=batch, seed=seed)),
    )


Model = TypeVar("Model", bound=nn.Module)


class Learner(Generic[Model]):
    """A model in training: its optimizers, and the seconds and the loss of each step."""

    kind: str

    def __init__(self, model: Model, tokenizer: Tokenizer, settings: Settings) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.optimizers = make_optimizers(model, settings)
        self.seconds: list[float] = []
        self.losses: list[float] = []

    def loss(self, task: Translation, rows: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the number of characters."""
        raise NotImplementedError

    def translate(self, texts: list[str]) -> list[str]:
        """Return the translations of dates."""
        raise NotImplementedError

    def step(self, task: Translation, rows: Batch, rate: float) -> None:
        """Run and time one training step."""
        start = time.perf_counter()
        set_rate(self.optimizers, rate)
        loss, counted = self.loss(task, rows)
        descend(self.optimizers, loss / counted, clipped=self.model)
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(loss.item() / int(counted))

    def evaluate(self, sources: list[str], targets: list[str]) -> Row:
        """Return the row of results, with the share of unseen dates translated exactly."""
        start = time.perf_counter()
        answers = self.translate(sources)
        seconds = time.perf_counter() - start
        is_right = [answer == target for answer, target in zip(answers, targets, strict=True)]
        return {
            "kind": self.kind,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "accuracy": sum(is_right) / len(is_right),
            "seconds_per_step": float(np.median(self.seconds)),
            "seconds_per_date": seconds / len(sources),
            "losses": self.losses,
        }

    def keys(self, text: str) -> list[str]:
        """Return the characters of a date as labels of the map."""
        return [*(self.tokenizer.decode([i]) or "?" for i in self.tokenizer.encode(text)), "⏎"]

    def _alignment(self, text: str, translation: str, table: np.ndarray, head: str | None) -> Row:
        """Return an alignment for the results."""
        rounded, keys = table.round(4), self.keys(text)
        year = year_copy_score(np.array(rounded.tolist()), translation, keys)
        row = {"kind": self.kind, "said": translation, "head": head}
        return row | {"map": rounded.tolist(), "keys": keys, "year": year}


class GRULearner(Learner[GRUTranslator]):
    """The GRU in training."""

    kind = "gru"

    def loss(self, task: Translation, rows: Batch) -> tuple[Tensor, Tensor]:
        source, lengths, target, labels = rows
        return summed_loss(self.model(target, source, lengths), labels)

    def translate(self, texts: list[str]) -> list[str]:
        return [translation for translation, _ in self._generate(texts)]

    def _generate(self, texts: list[str]) -> list[tuple[str, np.ndarray]]:
        """Return each translation with the attention weights of its characters."""
        end, start = self.tokenizer.eos, self.tokenizer.bos
        assert end is not None and start is not None
        ids = [torch.tensor([*self.tokenizer.encode(text), end]) for text in texts]
        source = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=self.tokenizer.pad or 0)
        characters, weight_rows = self.model.generate(source, torch.tensor([len(row) for row in ids]), start)
        rows = [list(takewhile(lambda i: i != end, row)) for row in characters.tolist()]
        return [
            (self.tokenizer.decode(row), weights[: len(row)].numpy())
            for row, weights in zip(rows, weight_rows, strict=True)
        ]

    def align(self, text: str) -> Row:
        """Return the alignment of a text."""
        [(translation, table)] = self._generate([text])
        return self._alignment(text, translation, table, None)


class TransformerLearner(Learner[Transformer]):
    """The Transformer in training."""

    kind = "transformer"

    def loss(self, task: Translation, rows: Batch) -> tuple[Tensor, Tensor]:
        return task.loss(self.model, rows)

    def translate(self, texts: list[str]) -> list[str]:
        self.model.eval()
        return translate(self.model, self.tokenizer, texts, most=MAX_LENGTH)

    def align(self, text: str) -> Row:
        """Return the alignment of a text, by the head that aligns best."""
        from ..tracing.record.recorder import trace

        run, translation, keys = trace(self.model, text, self.tokenizer), self.translate([text])[0], self.keys(text)
        best, best_score = (0, 0, np.zeros((0, len(keys)), np.float32)), -1.0
        for layer in run.layers("cross"):
            for head in range(run.n_head("cross")):
                table = run.map(layer, head, part="cross")[: len(translation)]
                copy_score = year_copy_score(table, translation, keys)
                # without a year to score, prefer the head with the sharpest weights
                score = float(table.max(1).mean()) if copy_score is None else copy_score
                if len(translation) and score > best_score:
                    best, best_score = (layer, head, table), score
        layer, head, table = best
        return self._alignment(text, translation, table, f"{layer}.{head}")


def year_copy_score(table: np.ndarray, translation: str, keys: list[str]) -> float | None:
    """Return the mean attention of the written digits of the year to the same digits in the source.

    >>> year_copy_score(np.eye(5)[:4], "2026-", list("2026年"))
    1.0
    >>> year_copy_score(np.eye(5)[:4], "1999-", list("2026年")) is None
    True
    """
    year = translation[:YEAR_DIGITS]
    start = "".join(key if len(key) == 1 else "?" for key in keys).find(year)
    if len(year) < YEAR_DIGITS or not year.isdigit() or start < 0 or len(table) < YEAR_DIGITS:
        return None
    return float(np.mean([table[i, start + i] for i in range(YEAR_DIGITS)]))


COLUMNS = (
    Column(lambda row: say(LABELS[row["kind"]])),
    Column("parameters", ","),
    Column("accuracy", report.share),
    Column("seconds_per_step", report.duration),
    Column("seconds_per_date", report.duration),
    Column(lambda row: np.mean(row["losses"][-20:]), ".3f"),
    Column(lambda row: row["said"] or None),
    Column("year", ".2f"),
)


def tables(results: Results) -> list[report.Table]:
    """Return a table with a row per model."""
    sizes = results["sizes"]
    title = say(
        "Dates of many forms to ISO: {steps} steps of {batch} dates, {tests} unseen dates as the test (GRU by "
        "AdamW, Transformer by Muon)",
        **sizes,
    )
    text = " ".join(sizes["text"].replace("|", "¦").split())  # | parts the columns
    header = say("model|weights|right|per step|per date|last loss|{text}|year on year", text=text).split("|")
    rows = [{**row, **alignment} for row, alignment in zip(results["rows"], results["alignments"], strict=True)]
    return [report.table(title, header, COLUMNS, rows)]


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Summarize accuracy, time per step, and the alignments."""
    gru, transformer = results["rows"]
    names = {row["kind"]: say(LABELS[row["kind"]]) for row in results["rows"]}
    ahead, behind = sorted(results["rows"], key=lambda row: -row["accuracy"])
    accuracy_text = _(
        "After {steps} steps, the {ahead} got {high:share} of {tests} unseen dates wholly right, the {behind} {low:share}."
    )
    if ahead["accuracy"] == behind["accuracy"]:
        accuracy_text = _(
            "After {steps} steps, both ({ahead}, {behind}) got {high:share} of {tests} unseen dates wholly right ({low:share})."
        )
    values = dict(
        ahead=names[ahead["kind"]], behind=names[behind["kind"]], high=ahead["accuracy"], low=behind["accuracy"]
    )
    yield sentence(accuracy_text, **values, **results["sizes"])
    slower, faster = sorted(results["rows"], key=lambda row: -row["seconds_per_step"])
    yield sentence(
        _(
            "A training step took the GRU {gru[seconds_per_step]:duration} and the Transformer "
            "{transformer[seconds_per_step]:duration} ({threads}): the {faster} was {ratio:.1f} times as fast. The GRU reads "
            "and writes one character after the other; the Transformer reads all of them at once and, while training, writes "
            "all at once."
        ),
        gru=gru,
        transformer=transformer,
        faster=names[faster["kind"]],
        ratio=slower["seconds_per_step"] / faster["seconds_per_step"],
        threads=report.threads(results["threads"]),
    )
    years, head = [alignment["year"] for alignment in results["alignments"]], results["alignments"][1]["head"]
    copy_text = _(
        "Writing the year, the GRU put {years[0]:.2f} of its attention on the very digit that it copies; of the "
        "Transformer's heads, {head} (layer.head) did so most, with {years[1]:.2f}."
    )
    if None in years:
        copy_text = _(
            "(The two didn't both write a year that stands in the text digit by digit, so no copying is scored; "
            "of the Transformer, {head} is drawn, the head that was surest where to look or copied best.)"
        )
    yield sentence(copy_text, years=years, head=head)


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Draw both alignments and the losses."""
    text = results["sizes"]["text"]
    across = max(len(results["alignments"][0]["keys"]), 12)
    figure = report.canvas(1, 3, each=(min(0.2 * across + 1.2, 6.5), 3.7), words=[text])
    for index, alignment in enumerate(results["alignments"]):
        title = say(LABELS[alignment["kind"]]) + (f" · {alignment['head']}" if alignment["head"] else "")
        axes = figure.add_subplot(1, 3, index + 1)
        if alignment["map"]:
            figure_canvas.paint(axes, np.array(alignment["map"]), None)
            figure_canvas.label(axes, list(alignment["said"]), alignment["keys"])
        report.label_axes(axes, title, say("source: read"), say("target: written"))
    axes = report.panel(figure, 1, 3, 3, title=say("loss while training"), x=say("step"))
    for row, color in zip(results["rows"], (report.INK[1], report.INK[0]), strict=True):
        label = f"{say(LABELS[row['kind']])} · {report.share(row['accuracy'])}"
        axes.plot(row["losses"], color=color, linewidth=1, label=label)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)
    return report.finish(figure, path)
