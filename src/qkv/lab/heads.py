"""The number of heads: the same width split into 1, 2, … 16 heads, trained on the repeat task.

A random sequence is repeated once; in the repetition the next symbol is the one that followed the same symbol before.
That takes two heads: one that attends to the previous token and, in a later layer, one that attends to the token after an
earlier occurrence (induction). Lengths vary, so attending at a fixed distance doesn't work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..attention.shapes import check_even_heads
from ..draw import figure_canvas
from ..i18n import Message, _, say
from ..model.config import Config, EmbeddingSettings
from ..model.transformer import Transformer
from ..text.mlm_masking import IGNORED
from ..text.seeded_rng import dice
from ..text.sequence_tasks import SYMBOLS, sequences
from ..tracing.study.patterns import CALLED
from ..train.optim import descend, make_optimizers, set_rate
from ..train.settings import Settings
from ..train.tasks import summed_loss
from . import Course, Progress, Results, Row, report
from .report import Column, sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEST_ROWS = 256
EVALUATE_EVERY = 20  # steps between measurements of the accuracy
LEARNED = 0.9
PILOT_STEPS = 3  # steps timed to predict the total time
TASK_PATTERNS = ("induction", "previous")  # the patterns that solve this task


def measure(
    *, heads: tuple[int, ...], symbols: int, steps: int, width: int, progress: Progress, **sizes: int
) -> Results:
    """Train one model per number of heads on the same batches, and find the pattern of each head."""
    check_even_heads(width, heads)
    rows, load = [], report.load_per_core()

    def estimate(count: int) -> float:
        start = time.perf_counter()
        row = _train(count, lambda share: None, PILOT_STEPS, symbols, width, **sizes)  # includes tracing the heads
        return time.perf_counter() - start + row["seconds_per_step"] * (steps - PILOT_STEPS)

    update = Course(progress, [estimate(count) for count in heads])
    for part, count in enumerate(heads):
        rows.append(_train(count, partial(update, part), steps, symbols, width, **sizes))
    return {"rows": rows, "chance": 1 / symbols, "threads": torch.get_num_threads(), "busy": load}


def _batch(seed: int, step: int, rows: int, length: int, symbols: int) -> tuple[Tensor, Tensor]:
    x, y = sequences("repeat", seed, step, rows, length, symbols + SYMBOLS)
    return torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(np.ascontiguousarray(y))


def _train(
    count: int,
    on_progress: Callable[[float], None],
    steps: int,
    symbols: int,
    width: int,
    *,
    layers: int,
    length: int,
    batch: int,
    seed: int,
) -> Row:
    torch.manual_seed(seed)
    config = Config(
        vocab=symbols + SYMBOLS,
        width=width,
        n_layer=layers,
        n_head=count,
        context=2 * length + 1,  # two copies, and the bos of the traced sequence
        qk_norm="rms",
        embedding=EmbeddingSettings(tied=False),
        init="zero-out",
    )
    model = Transformer(config)
    settings = Settings(steps=steps, batch=batch, seed=seed)
    optimizers = make_optimizers(model, settings)
    test_batch = _batch(seed + 1, 10**9, TEST_ROWS, length, symbols)
    seconds, curve, learned_at = [], [], None
    for step in range(steps):
        sequence_length = int(dice(seed, step, stream=8).integers(max(length // 2, 2), length + 1))
        x, y = _batch(seed, step, batch, sequence_length, symbols)
        start = time.perf_counter()
        set_rate(optimizers, settings.rate(step))
        loss, counted = summed_loss(model(x), y)
        descend(optimizers, loss / counted)
        seconds.append(time.perf_counter() - start)
        if (step + 1) % EVALUATE_EVERY == 0 or step + 1 == steps:
            curve.append([step + 1, _accuracy(model, *test_batch)])
            if learned_at is None and curve[-1][1] >= LEARNED:
                learned_at = step + 1
        on_progress((step + 1) / steps)
    return {
        "heads": count,
        "head_width": width // count,
        "parameters": model.count(),
        "accuracy": curve[-1][1],
        "reached": learned_at,
        "seconds_per_step": float(np.median(seconds)),
        "curve": curve,
        "patterns": _find_patterns(model, seed, length, symbols),
    }


@torch.no_grad()
def _accuracy(model: Transformer, x: Tensor, y: Tensor) -> float:
    """Return the share of the repetition that the model predicts."""
    answers, counted = model(x).argmax(-1), y != IGNORED
    return float((answers[counted] == y[counted]).float().mean())


def _find_patterns(model: Transformer, seed: int, length: int, symbols: int) -> Row:
    """Return the patterns of the heads on one unseen sequence: counts, and the strongest head of each task pattern."""
    from ..tracing.record.recorder import trace
    from ..tracing.study.patterns import patterns

    ids = _repeated_ids(seed, length, symbols)
    run = trace(model, [ids])
    kinds = patterns(run)
    names: dict[str, int] = {}
    for row in kinds.table:
        names[row.name] = names.get(row.name, 0) + 1
    best = {}
    for kind in TASK_PATTERNS:
        for row in kinds.best(kind, 1):
            best[kind] = {
                "layer": row.layer,
                "head": row.head,
                "score": row.scores[kind].value,
                "even": row.scores[kind].baseline,
                "map": run.map(row.layer, row.head).round(4).tolist(),
            }
    return {"ids": ids, "names": names, "best": best}


def _repeated_ids(seed: int, length: int, symbols: int) -> list[int]:
    """Return bos and a repeated sequence, of distinct symbols if there are enough, so that each has one successor."""
    rng = dice(seed + 1, 0, stream=9)
    symbol_row = rng.permutation(symbols)[:length] if symbols >= length else rng.integers(0, symbols, length)
    return [1, *(SYMBOLS + np.concatenate([symbol_row, symbol_row])).tolist()]


def _score(kind: str, row: Row) -> float | None:
    best = row["patterns"]["best"].get(kind)
    return None if best is None else best["score"]


COLUMNS = (
    Column(lambda row: f"{row['heads']} × {row['head_width']}"),
    Column("accuracy", report.share),
    Column("reached"),
    Column("seconds_per_step", report.duration),
    *(Column(partial(_score, kind), ".2f") for kind in TASK_PATTERNS),
    Column(lambda row: _names(row["patterns"]["names"])),
)


def tables(results: Results) -> list[report.Table]:
    """Return a table with a row per number of heads."""
    sizes = results["sizes"]
    title = say(
        "The repeat task: {layers} layers, width {width}, {steps} steps, sequences of up to {length} of "
        "{symbols} symbols",
        **sizes,
    )
    header = say(
        "heads × width|right|{good} at step|time per step|induction|previous token|what the heads do",
        good=f"{LEARNED:.0%}",
    ).split("|")
    return [report.table(title, header, COLUMNS, results["rows"], words=(0, 6))]


def _names(counts: dict[str, int]) -> str:
    """Return the three most common patterns with their counts."""
    most = sorted(counts.items(), key=lambda item: -item[1])[:3]
    return say(", ").join(f"{say(CALLED[name])} {count}" for name, count in most)


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Summarize the accuracies, which model learned first, and the patterns of the best model."""
    rows = results["rows"]
    best, worst = (choose(rows, key=lambda row: row["accuracy"]) for choose in (max, min))
    if len(rows) == 1:
        yield sentence(_("{heads}: {accuracy:share} right."), heads=_heads(best), accuracy=best["accuracy"])
    else:
        counts = [row["parameters"] for row in rows]
        yield sentence(
            _(
                "At equal width, and so with as many weights ({params}; only the norms of q and k differ), {best_heads} of "
                "width {best[head_width]} did best ({best[accuracy]:share} right), {worst_heads} of width "
                "{worst[head_width]} worst ({worst[accuracy]:share}; chance is {chance:share})."
            ),
            best=best,
            best_heads=_heads(best),
            worst=worst,
            worst_heads=_heads(worst),
            chance=results["chance"],
            params="–".join(f"{count:,}" for count in sorted({min(counts), max(counts)})),
        )
        comparison = _("Here more heads helped: {heads} heads, of width {head_width} each, came out best.")
        if rows[-1] is not best:
            comparison = _(
                "More heads were not better here. {heads} of them are only {head_width} wide each, and a likely reason is that finding one symbol among many takes a q and k wide enough to tell them apart."
            )
        yield sentence(comparison, **rows[-1])
    first = min((row for row in rows if row["reached"] is not None), key=lambda row: row["reached"], default=None)
    if first is None:
        text = _("No model reached {good:.0%} right within {steps} steps: give more --steps.")
        yield sentence(text, good=LEARNED, steps=results["sizes"]["steps"])
    else:
        text = _("First to reach {good:.0%} right: {heads}, at step {step}.")
        yield sentence(text, good=LEARNED, heads=_heads(first), step=first["reached"])
    text = _("{kind}, strongest in {layer}.{head} (layer.head) with {score:.2f} of its weight (even: {even:.2f})")
    findings = [sentence(text, kind=say(CALLED[kind]), **head) for kind, head in best["patterns"]["best"].items()]
    if findings:
        patterns = say("; ").join(findings)
        yield say("What the heads of the best ({heads}) do: {found}.", heads=_heads(best), found=patterns)


def _heads(row: Row) -> Message:
    return report.heads(row["heads"])


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Plot the learning curves, and for each model its strongest induction and previous-token heads."""
    rows = results["rows"]
    across = max(len(rows), 2)
    figure = report.canvas(3, across, each=(2.9, 2.8))
    grid = figure.add_gridspec(3, across)
    curve_cells, time_cells = grid[0, : across - across // 2], grid[0, across - across // 2 :]
    axes = report.panel(figure, curve_cells, title=say("learning"), x=say("step"), y=say("right"))
    colors = _color_ramp(len(rows))
    for row, color in zip(rows, colors, strict=True):
        axes.plot(*zip(*row["curve"], strict=True), color=color, label=f"{row['heads']}")
    axes.axhline(results["chance"], color=report.INK[4], linestyle=":", linewidth=1)
    axes.set_ylim(0, 1.05)
    axes.legend(fontsize=8, frameon=False, title=say("heads"), title_fontsize=8, loc="upper left")
    axes = report.panel(figure, time_cells, title=say("time per step"), x=say("heads"), y=say("ms"))
    axes.bar(
        [str(row["heads"]) for row in rows], [row["seconds_per_step"] * 1e3 for row in rows], color=colors, width=0.6
    )
    for line, kind in enumerate(TASK_PATTERNS):
        for column, row in enumerate(rows):
            head = row["patterns"]["best"].get(kind)
            if head is None:
                continue
            axes = figure.add_subplot(grid[line + 1, column])
            table = np.array(head["map"])
            figure_canvas.paint(axes, table, np.tri(len(table), dtype=bool))
            axes.set(xticks=[], yticks=[])
            title = f"{say(_heads(row))} · {head['layer']}.{head['head']} · {head['score']:.2f}"
            axes.set_title(title, fontsize=8, loc="left")
            if column == 0:
                axes.set_ylabel(say(CALLED[kind]), fontsize=9)
    return report.finish(figure, path)


def _color_ramp(count: int) -> list[tuple[float, float, float, float]]:
    from matplotlib import colormaps

    return [colormaps["viridis"](0.9 * index / max(count - 1, 1)) for index in range(count)]
