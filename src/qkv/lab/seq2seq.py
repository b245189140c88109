"""From where attention began to where it went: a GRU with additive attention against a Transformer, on dates.

Bahdanau's translator reads with one GRU and writes with another, which before every character looks back at the source by
a small network's score. The Transformer keeps the looking back and drops the recurrence. Both see the same dates; both
write ISO dates character by character; their alignments show which character of the source each one was written from.

B batch, N source tokens, T target tokens, C width.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ..attention import masks
from ..attention.additive import AdditiveAttention
from ..draw import figure_canvas
from ..generation.decoding import translate
from ..i18n import Problem, _, paragraph, say
from ..model.config import Config
from ..model.transformer import Transformer
from ..text.dates import date_pair, date_tokenizer, not_a_date, read_date
from ..text.pairs import PairStream
from ..train.optim import make_optimizers, set_rate
from ..train.settings import Settings
from ..train.tasks import Translation, summed_loss
from . import Course, Progress, report, small_step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 12  # an ISO date has ten characters
YEAR = 4  # the first characters of an ISO date, which most sources write the same way
KINDS = ("gru", "transformer")
FEW, SMALL = 32, 3  # dates and steps that tell how long all will take


CALLED = {"gru": _("GRU + additive attention"), "transformer": _("Transformer")}


class Recurrent(nn.Module):
    """A GRU reads both ways, a GRU writes, and additive attention joins them (Bahdanau, 2014)."""

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.begin = nn.Linear(2 * width, width)
        self.attention = AdditiveAttention(width, 2 * width, width)
        self.decoder = nn.GRUCell(3 * width, width)
        self.head = nn.Linear(3 * width, vocab)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The states of the source (B, N, 2C), and the state (B, C) that writing begins from."""
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        return memory, torch.tanh(self.begin(last.transpose(0, 1).flatten(1)))

    def step(self, token: Tensor, state: Tensor, memory: Tensor, mask: masks.Mask) -> tuple[Tensor, Tensor, Tensor]:
        """One character: (logits (B, V), the next state (B, C), where it looked (B, N))."""
        seen, weights = self.attention(state[:, None], memory, mask)
        state = self.decoder(torch.cat([self.embedding(token), seen[:, 0]], -1), state)
        return self.head(torch.cat([state, seen[:, 0]], -1)), state, weights[:, 0]

    def forward(self, target: Tensor, source: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, T, V) of every next character of a target that is given."""
        memory, state = self.encode(source, lengths)
        mask, logits = masks.padding(lengths), []
        for token in target.unbind(1):
            said, state, _ = self.step(token, state, memory, mask)
            logits.append(said)
        return torch.stack(logits, 1)

    @torch.no_grad()
    def write(self, source: Tensor, lengths: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """The likeliest characters (B, LONGEST), and where each was written from (B, LONGEST, N)."""
        memory, state = self.encode(source, lengths)
        token = torch.full((len(source),), start)
        mask, said, looks = masks.padding(lengths), [], []
        for _place in range(LONGEST):
            logits, state, weights = self.step(token, state, memory, mask)
            token = logits.argmax(-1)
            said.append(token)
            looks.append(weights)
        return torch.stack(said, 1), torch.stack(looks, 1)


def measure(
    *,
    steps: int,
    width: int,
    batch: int,
    tests: int,
    text: str,
    seed: int,
    progress: Progress,
) -> dict[str, Any]:
    """Train both on the same batches in turn, translate dates that neither has seen, and align one of them."""
    if not text.strip():
        raise Problem("--date is empty: give a date, as in  15 November 2026")
    if read_date(text) is None:
        raise not_a_date(
            _(
                "--date is {text}, no date in a form that the two are taught: write one from {first} to {last} like "
                "{forms}"
            ),
            text,
        )
    if width % 8:
        raise Problem(
            "width {width} doesn't divide into {heads} heads: choose a divisor, or give head_width",
            width=width,
            heads=8,
        )
    tokenizer = date_tokenizer()
    stream = PairStream(partial(date_pair, split="train"), tokenizer)
    task = Translation(stream, stream, tokenizer, [])
    settings = Settings(steps=steps, batch=batch, seed=seed)
    torch.manual_seed(seed)
    gru = Recurrent(tokenizer.vocab, width)
    config = Config(
        kind="encoder-decoder",
        vocab=tokenizer.vocab,
        width=width,
        n_layer=2,
        n_head=4,
        qk_norm="rms",
        tied=False,
        init="zero-out",
    )
    transformer = Transformer(config)
    models: dict[str, Any] = {"gru": gru, "transformer": transformer}
    # Each learns by what suits it: the GRU by AdamW, the Transformer by the recipe of `qkv train`.
    movers = {
        "gru": make_optimizers(gru, Settings(steps=steps, batch=batch, optimizer="adamw", lr=5e-3)),
        "transformer": make_optimizers(transformer, settings),
    }
    load = report.busy()
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    losses: dict[str, list[float]] = {kind: [] for kind in KINDS}
    asked = [date_pair(seed, index, "unseen") for index in range(tests)]
    # What the answers will take is seen on a few of them; an untrained model doesn't end by itself, so it is the most.
    few = [source for source, _ in asked[:FEW]]
    answers = sum(small_step(partial(_translate, kind, models[kind], tokenizer, few)) for kind in KINDS)
    transformer.train()
    course = None
    began = time.perf_counter()
    for step in range(steps):
        given = task.batch(seed, step, batch)
        for kind in KINDS:
            begun = time.perf_counter()
            set_rate(movers[kind], settings.rate(step))
            loss, counted = _loss(kind, models[kind], task, given)
            (loss / counted).backward()
            nn.utils.clip_grad_norm_(models[kind].parameters(), 1.0)
            for mover in movers[kind]:
                mover.step()
                mover.zero_grad(set_to_none=True)
            seconds[kind].append(time.perf_counter() - begun)
            losses[kind].append(loss.item() / int(counted))
        if step + 1 == min(SMALL, steps):
            once = sum(seconds[kind][-1] for kind in KINDS)
            course = Course(
                progress, [time.perf_counter() - began + once * (steps - step - 1), answers * tests / len(few)]
            )
        if course is not None:
            course(0, (step + 1) / steps)
    rows = []
    for kind in KINDS:
        begun = time.perf_counter()
        said = _translate(kind, models[kind], tokenizer, [source for source, _ in asked])
        took = time.perf_counter() - begun
        right = [one == wanted for one, (_, wanted) in zip(said, asked, strict=True)]
        rows.append(
            {
                "kind": kind,
                "parameters": sum(p.numel() for p in models[kind].parameters()),
                "accuracy": sum(right) / len(right),
                "seconds_per_step": float(np.median(seconds[kind])),
                "seconds_per_date": took / tests,
                "losses": losses[kind],
            }
        )
    aligned = _align(gru, transformer, tokenizer, text)
    return {"rows": rows, "alignments": aligned, "threads": torch.get_num_threads(), "busy": load}


def _loss(kind: str, model: Any, task: Translation, given: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    if kind == "transformer":
        return task.loss(model, given)
    source, lengths, target, labels = given
    return summed_loss(model(target, source, lengths), labels)


def _translate(kind: str, model: Any, tokenizer: Any, texts: list[str]) -> list[str]:
    if kind == "transformer":
        model.eval()
        return translate(model, tokenizer, texts, most=LONGEST)
    rows = [[*tokenizer.encode(text), tokenizer.eos] for text in texts]
    lengths = torch.tensor([len(row) for row in rows])
    source = nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=tokenizer.pad
    )
    said, _ = model.write(source, lengths, tokenizer.bos)
    return [tokenizer.decode(_until(row, tokenizer.eos)) for row in said.tolist()]


def _until(ids: Iterable[int], end: int) -> list[int]:
    kept: list[int] = []
    for i in ids:
        if i == end:
            break
        kept.append(i)
    return kept


def _align(gru: Recurrent, transformer: Transformer, tokenizer: Any, text: str) -> list[dict[str, Any]]:
    """What each makes of the text, and from which of its characters; of the Transformer, the head that aligns best."""
    from ..tracing.record.recorder import trace

    ids = [*tokenizer.encode(text), tokenizer.eos]
    keys = [*(tokenizer.decode([i]) or "?" for i in ids[:-1]), "⏎"]
    said, looks = gru.write(torch.tensor([ids]), torch.tensor([len(ids)]), tokenizer.bos)
    written = _until(said[0].tolist(), tokenizer.eos)
    table = looks[0, : len(written)].numpy()
    made = [
        {"kind": "gru", "said": tokenizer.decode(written), "head": None, "map": table.round(4).tolist()},
    ]
    seen = trace(transformer, text, tokenizer)
    answer = translate(transformer, tokenizer, [text], most=LONGEST)[0]
    rows = len(answer)
    best, score = (0, 0, np.zeros((0, len(keys)), np.float32)), -1.0
    for layer in seen.layers("cross"):
        for head in range(seen.n_head("cross")):
            one = seen.map(layer, head, part="cross")[:rows]
            copied = on_the_year(one, answer, keys)
            # without a year to go by, the head that is surest where it looks
            value = float(one.max(1).mean()) if copied is None else copied
            if rows and value > score:
                best, score = (layer, head, one), value
    layer, head, one = best
    made.append({"kind": "transformer", "said": answer, "head": f"{layer}.{head}", "map": one.round(4).tolist()})
    for row in made:
        row["keys"] = keys
        row["year"] = on_the_year(np.array(row["map"]), row["said"], keys)
    return made


def on_the_year(table: np.ndarray, said: str, keys: list[str]) -> float | None:
    """The mean weight that the year's digits, as they are written, give to the same digits in the source.

    >>> on_the_year(np.eye(5)[:4], "2026-", list("2026年"))
    1.0
    >>> on_the_year(np.eye(5)[:4], "1999-", list("2026年")) is None
    True
    """
    year = said[:YEAR]
    at = "".join(key if len(key) == 1 else "?" for key in keys).find(year)
    if len(year) < YEAR or not year.isdigit() or at < 0 or len(table) < YEAR:
        return None
    return float(np.mean([table[i, at + i] for i in range(YEAR)]))


def tables(results: dict[str, Any]) -> list[report.Table]:
    """A row each."""
    rows = [
        [
            say(CALLED[row["kind"]]),
            f"{row['parameters']:,}",
            report.share(row["accuracy"]),
            report.duration(row["seconds_per_step"]),
            report.duration(row["seconds_per_date"]),
            f"{np.mean(row['losses'][-20:]):.3f}",
            one["said"] or "—",
            "—" if one["year"] is None else f"{one['year']:.2f}",
        ]
        for row, one in zip(results["rows"], results["alignments"], strict=True)
    ]
    sizes = results["sizes"]
    text = " ".join(sizes["text"].replace("|", "¦").split())  # | parts the columns
    title = say(
        "Dates of many forms to ISO: {steps} steps of {batch} dates, {tests} unseen dates as the test (GRU by "
        "AdamW, Transformer by Muon)",
        **{name: sizes[name] for name in ("steps", "batch", "tests")},
    )
    return [
        report.Table(
            title,
            say("model|weights|right|per step|per date|last loss|{text}|year on year", text=text).split("|"),
            rows,
        )
    ]


def shows(results: dict[str, Any]) -> str:
    """Who was right more often, who was quicker, and what the alignments say."""
    gru, transformer = results["rows"]
    names = {row["kind"]: say(CALLED[row["kind"]]) for row in results["rows"]}
    ahead, behind = sorted(results["rows"], key=lambda row: -row["accuracy"])
    sentence = (
        _("After {steps} steps, both ({ahead}, {behind}) got {high} of {tests} unseen dates wholly right ({low}).")
        if ahead["accuracy"] == behind["accuracy"]
        else _("After {steps} steps, the {ahead} got {high} of {tests} unseen dates wholly right, the {behind} {low}.")
    )
    said = [
        say(
            sentence,
            ahead=names[ahead["kind"]],
            behind=names[behind["kind"]],
            high=report.share(ahead["accuracy"]),
            low=report.share(behind["accuracy"]),
            steps=results["sizes"]["steps"],
            tests=results["sizes"]["tests"],
        )
    ]
    slower, faster = sorted(results["rows"], key=lambda row: -row["seconds_per_step"])
    said.append(
        say(
            "A training step took the GRU {gru} and the Transformer {transformer} ({threads}): the {faster} was "
            "{ratio} times as fast. The GRU reads and writes one character after the other; the Transformer reads "
            "all of them at once and, while training, writes all at once.",
            gru=report.duration(gru["seconds_per_step"]),
            transformer=report.duration(transformer["seconds_per_step"]),
            faster=names[faster["kind"]],
            ratio=f"{slower['seconds_per_step'] / faster['seconds_per_step']:.1f}",
            threads=report.threads(results["threads"]),
        )
    )
    years = [one["year"] for one in results["alignments"]]
    if None in years:
        said.append(
            say(
                "(The two didn't both write a year that stands in the text digit by digit, so no copying is scored; "
                "of the Transformer, {head} is drawn, the head that was surest where to look or copied best.)",
                head=results["alignments"][1]["head"],
            )
        )
    else:
        said.append(
            say(
                "Writing the year, the GRU put {gru} of its attention on the very digit that it copies; of the "
                "Transformer's heads, {head} (layer.head) did so most, with {transformer}.",
                gru=f"{years[0]:.2f}",
                transformer=f"{years[1]:.2f}",
                head=results["alignments"][1]["head"],
            )
        )
    return paragraph([*said, *report.noise(results["busy"])])


def draw(results: dict[str, Any], path: str | Path | None = None) -> Figure:
    """The two alignments side by side, and how both learned."""
    text = results["sizes"]["text"]
    across = max(len(results["alignments"][0]["keys"]), 12)
    figure = report.canvas(1, 3, each=(min(0.2 * across + 1.2, 6.5), 3.7), words=[text])
    for at, one in enumerate(results["alignments"]):
        title = say(CALLED[one["kind"]]) + (f" · {one['head']}" if one["head"] else "")
        axes = figure.add_subplot(1, 3, at + 1)
        axes.set_title(title, fontsize=10, loc="left")
        if one["map"]:
            figure_canvas.paint(axes, np.array(one["map"]), None)
            figure_canvas.label(axes, list(one["said"]), one["keys"])
        axes.tick_params(labelsize=8)
        axes.set_xlabel(say("source: read"), fontsize=9)
        axes.set_ylabel(say("target: written"), fontsize=9)
    axes = report.panel(figure, 1, 3, 3, title=say("loss while training"), x=say("step"))
    for row, ink in zip(results["rows"], (report.INK[1], report.INK[0]), strict=True):
        label = f"{say(CALLED[row['kind']])} · {report.share(row['accuracy'])}"
        axes.plot(row["losses"], color=ink, linewidth=1, label=label)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)
    return report.finish(figure, path)
