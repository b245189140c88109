"""How many heads? The same width cut into 1, 2, … 16 heads, trained on the repeat task, and what their heads do.

A random sequence is said twice; the second time every symbol can be known by finding what followed it the first time.
That takes two steps: a head that lets each token know the one before it, and in a later layer one that finds the token
that follows an earlier occurrence (induction). Lengths vary, so a fixed distance is no way out.
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

TESTS = 256
EVERY = 20  # steps between looks at how much is right
GOOD = 0.9
SMALL = 3  # steps that tell how long all will take
SHOWN = ("induction", "previous")  # the kinds of heads that this task is made of


def measure(
    *, heads: tuple[int, ...], symbols: int, steps: int, width: int, progress: Progress, **sizes: int
) -> Results:
    """Train one model per number of heads on the same batches, then name what each head does."""
    check_even_heads(width, heads)
    rows, load = [], report.busy()

    def small(count: int) -> float:
        begun = time.perf_counter()
        once = _train(count, lambda share: None, SMALL, symbols, width, **sizes)["seconds_per_step"]
        return time.perf_counter() - begun + once * (steps - SMALL)  # a look at its heads is in it

    course = Course(progress, [small(count) for count in heads])
    for part, count in enumerate(heads):
        rows.append(_train(count, partial(course, part), steps, symbols, width, **sizes))
    return {"rows": rows, "chance": 1 / symbols, "threads": torch.get_num_threads(), "busy": load}


def _rows(seed: int, step: int, rows: int, length: int, symbols: int) -> tuple[Tensor, Tensor]:
    x, y = sequences("repeat", seed, step, rows, length, symbols + SYMBOLS)
    return torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(np.ascontiguousarray(y))


def _train(
    count: int,
    tell: Callable[[float], None],
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
        context=2 * length + 1,  # said twice, and the bos of the one that is looked into
        qk_norm="rms",
        embedding=EmbeddingSettings(tied=False),
        init="zero-out",
    )
    model = Transformer(config)
    settings = Settings(steps=steps, batch=batch, seed=seed)
    optimizers = make_optimizers(model, settings)
    test = _rows(seed + 1, 10**9, TESTS, length, symbols)
    seconds, curve, reached = [], [], None
    for step in range(steps):
        here = int(dice(seed, step, stream=8).integers(max(length // 2, 2), length + 1))
        x, y = _rows(seed, step, batch, here, symbols)
        begun = time.perf_counter()
        set_rate(optimizers, settings.rate(step))
        loss, counted = summed_loss(model(x), y)
        descend(optimizers, loss / counted)
        seconds.append(time.perf_counter() - begun)
        if (step + 1) % EVERY == 0 or step + 1 == steps:
            curve.append([step + 1, _right(model, *test)])
            if reached is None and curve[-1][1] >= GOOD:
                reached = step + 1
        tell((step + 1) / steps)
    return {
        "heads": count,
        "head_width": width // count,
        "parameters": model.count(),
        "accuracy": curve[-1][1],
        "reached": reached,
        "seconds_per_step": float(np.median(seconds)),
        "curve": curve,
        "patterns": _patterns(model, seed, length, symbols),
    }


@torch.no_grad()
def _right(model: Transformer, x: Tensor, y: Tensor) -> float:
    """The share of the second saying that the model says right."""
    answers, counted = model(x).argmax(-1), y != IGNORED
    return float((answers[counted] == y[counted]).float().mean())


def _patterns(model: Transformer, seed: int, length: int, symbols: int) -> Row:
    """What the heads do on one unseen sequence: names counted, and of each kind that matters the strongest head."""
    from ..tracing.record.recorder import trace
    from ..tracing.study.patterns import patterns

    ids = _distinct(seed, length, symbols)
    seen = trace(model, [ids])
    kinds = patterns(seen)
    names: dict[str, int] = {}
    for row in kinds.table:
        names[row.name] = names.get(row.name, 0) + 1
    best = {}
    for kind in SHOWN:
        for row in kinds.best(kind, 1):
            best[kind] = {
                "layer": row.layer,
                "head": row.head,
                "score": row.scores[kind].value,
                "even": row.scores[kind].baseline,
                "map": seen.map(row.layer, row.head).round(4).tolist(),
            }
    return {"ids": ids, "names": names, "best": best}


def _distinct(seed: int, length: int, symbols: int) -> list[int]:
    """bos and a sequence said twice, of symbols that differ where there are enough: so that each has one answer."""
    throw = dice(seed + 1, 0, stream=9)
    row = throw.permutation(symbols)[:length] if symbols >= length else throw.integers(0, symbols, length)
    return [1, *(SYMBOLS + np.concatenate([row, row])).tolist()]


def _score(kind: str, row: Row) -> float | None:
    best = row["patterns"]["best"].get(kind)
    return None if best is None else best["score"]


COLUMNS = (
    Column(lambda row: f"{row['heads']} × {row['head_width']}"),
    Column("accuracy", report.share),
    Column("reached"),
    Column("seconds_per_step", report.duration),
    *(Column(partial(_score, kind), ".2f") for kind in SHOWN),
    Column(lambda row: _names(row["patterns"]["names"])),
)


def tables(results: Results) -> list[report.Table]:
    """A row per number of heads."""
    sizes = results["sizes"]
    title = say(
        "The repeat task: {layers} layers, width {width}, {steps} steps, sequences of up to {length} of "
        "{symbols} symbols",
        **sizes,
    )
    header = say(
        "heads × width|right|{good} at step|time per step|induction|previous token|what the heads do",
        good=f"{GOOD:.0%}",
    ).split("|")
    return [report.table(title, header, COLUMNS, results["rows"], words=(0, 6))]


def _names(counts: dict[str, int]) -> str:
    """Return what most heads do, with how many do."""
    most = sorted(counts.items(), key=lambda item: -item[1])[:3]
    return say(", ").join(f"{say(CALLED[name])} {count}" for name, count in most)


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Who learned it, who was first, and what the heads became."""
    rows = results["rows"]
    best, worst = (choose(rows, key=lambda row: row["accuracy"]) for choose in (max, min))
    if len(rows) == 1:
        yield sentence(_("{heads}: {accuracy:share} said right."), heads=_heads(best), accuracy=best["accuracy"])
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
        helped = _("Here more heads helped: {heads} heads, of width {head_width} each, came out best.")
        if rows[-1] is not best:
            helped = _(
                "More heads were not better here. {heads} of them are only {head_width} wide each, and a likely reason is that finding one symbol among many takes a q and k wide enough to tell them apart."
            )
        yield sentence(helped, **rows[-1])
    first = min((row for row in rows if row["reached"] is not None), key=lambda row: row["reached"], default=None)
    if first is None:
        told = _("No model said {good:.0%} right within {steps} steps: give it more --steps.")
        yield sentence(told, good=GOOD, steps=results["sizes"]["steps"])
    else:
        told = _("First to say {good:.0%} right: {heads}, at step {step}.")
        yield sentence(told, good=GOOD, heads=_heads(first), step=first["reached"])
    told = _("{kind}, strongest in {layer}.{head} (layer.head) with {score:.2f} of its weight (even: {even:.2f})")
    kinds = [sentence(told, kind=say(CALLED[kind]), **one) for kind, one in best["patterns"]["best"].items()]
    if kinds:
        yield say("What the heads of the best ({heads}) do: {found}.", heads=_heads(best), found=say("; ").join(kinds))


def _heads(row: Row) -> Message:
    return report.heads(row["heads"])


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """How each learned; below it, for each, its strongest induction head and its strongest previous-token head."""
    rows = results["rows"]
    across = max(len(rows), 2)
    figure = report.canvas(3, across, each=(2.9, 2.8))
    grid = figure.add_gridspec(3, across)
    left, right = grid[0, : across - across // 2], grid[0, across - across // 2 :]
    axes = report.panel(figure, left, title=say("learning"), x=say("step"), y=say("right"))
    inks = _ramp(len(rows))
    for row, ink in zip(rows, inks, strict=True):
        axes.plot(*zip(*row["curve"], strict=True), color=ink, label=f"{row['heads']}")
    axes.axhline(results["chance"], color=report.INK[4], linestyle=":", linewidth=1)
    axes.set_ylim(0, 1.05)
    axes.legend(fontsize=8, frameon=False, title=say("heads"), title_fontsize=8, loc="upper left")
    axes = report.panel(figure, right, title=say("time per step"), x=say("heads"), y=say("ms"))
    axes.bar(
        [str(row["heads"]) for row in rows], [row["seconds_per_step"] * 1e3 for row in rows], color=inks, width=0.6
    )
    for line, kind in enumerate(SHOWN):
        for at, row in enumerate(rows):
            one = row["patterns"]["best"].get(kind)
            if one is None:
                continue
            axes = figure.add_subplot(grid[line + 1, at])
            table = np.array(one["map"])
            figure_canvas.paint(axes, table, np.tri(len(table), dtype=bool))
            axes.set_xticks([])
            axes.set_yticks([])
            heads = say(report.heads(row["heads"]))
            axes.set_title(f"{heads} · {one['layer']}.{one['head']} · {one['score']:.2f}", fontsize=8, loc="left")
            if at == 0:
                axes.set_ylabel(say(CALLED[kind]), fontsize=9)
    return report.finish(figure, path)


def _ramp(count: int) -> list[tuple[float, float, float, float]]:
    from matplotlib import colormaps

    return [colormaps["viridis"](0.9 * at / max(count - 1, 1)) for at in range(count)]
