"""What attention costs as the text grows: time and memory of plain, fused and windowed attention against n.

Plain attention writes the n×n matrix of scores down; the fused kernel passes over it in blocks and never holds it; a
window leaves most of it uncomputed. Each is measured at several n, a power law is fitted to the largest of them, and the
law is carried on to an n that nobody wants to wait for. Then one whole training step, plain, fused and compiled.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from ..i18n import Notice, Problem, _, say
from . import Course, Progress, Results, Row, report, small_step
from .report import Column, sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("plain", "fused", "windowed")
FIRST = 1024  # n, at most, of the small step by which the others are expected
FITTED = 3  # the law is fitted to this many of the longest texts: short ones cost the call more than the work
LOOSE = 0.3  # a law that is off by more than this share at a measured point is no law
FLOAT32 = 4
ROOM = 6e8  # plain attention is left out where one matrix of scores would take more bytes than this
WIDTH, LAYERS, HEADS, BATCH, VOCAB = 128, 2, 4, 4, 256  # of the model whose training step is measured


CALLED = {
    "plain": _("plain"),
    "fused": _("fused"),
    "windowed": _("windowed"),
    "compiled": _("compiled"),
}
WHY = {
    "failed": _("Compiling failed here ({error}), so there is no third time."),
    "none": _("Nothing was compiled: there is no C++ compiler here (g++ or clang++; CXX names another)."),
}


def measure(
    *,
    lengths: tuple[int, ...],
    to: int,
    window: int,
    heads: int,
    width: int,
    context: int,
    compile: int,
    seed: int,
    progress: Progress,
) -> Results:
    """Time and peak memory of each kind at each n, their laws, and the training step."""
    if len(lengths) < FITTED:
        raise Problem("{n} lengths are too few to fit a law: give {least} or more", n=len(lengths), least=FITTED)
    if sum(heads * n * n * FLOAT32 <= ROOM for n in lengths) < FITTED:
        raise Problem(
            "plain attention can be measured up to n = {most} here: give {least} lengths up to that, or fewer heads",
            most=int((ROOM / FLOAT32 / heads) ** 0.5),
            least=FITTED,
        )
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler prints lines of its own
    import torch

    from ..attention import masks
    from ..attention.dispatch import attend

    def work(n: int) -> dict[str, Callable[[], object]]:
        q, k, v = (torch.randn(1, heads, n, width) for _ in range(3))
        made: dict[str, Callable[[], object]] = {
            "plain": partial(attend, q, k, v, kernel="plain"),
            "fused": partial(attend, q, k, v),
            "windowed": partial(attend, q, k, v, masks.window(window)),
        }
        if heads * n * n * FLOAT32 > ROOM:
            made.pop("plain")
        return made

    load = report.busy()
    first = min(FIRST, lengths[-1])
    with torch.no_grad():
        small = {kind: small_step(once) for kind, once in work(first).items()}
    course = Course(progress, [_expected(small, first, n, heads) for n in lengths] + _expected_training(context, seed))
    torch.manual_seed(seed)
    rows: list[Row] = []
    for part, n in enumerate(lengths):
        made = work(n)
        with torch.no_grad():
            times = report.race(made)
            for kind in KINDS:
                held = report.peak_bytes(made[kind]) if kind in made else None
                rows.append({"n": n, "kind": kind, "seconds": times.get(kind), "bytes": held})
        course(part)
    laws = {kind: law([row for row in rows if row["kind"] == kind], to) for kind in KINDS}
    steps = _training(context, seed, compile == 1, lambda done: course(len(lengths) + done))
    matrix = {"entries": to * to, "bytes": FLOAT32 * to * to}
    return {
        "rows": rows,
        "laws": laws,
        "matrix": matrix,
        "steps": steps,
        "threads": torch.get_num_threads(),
        "busy": load,
    }


def law(rows: list[Row], to: int) -> dict[str, float]:
    """The power laws of one kind's time and memory, by its longest texts, and what they give for n = `to`."""
    known = [row for row in rows if row["seconds"] is not None][-FITTED:]
    laws: dict[str, float] = {}
    for what in ("seconds", "bytes"):
        scale, exponent = report.power_law([row["n"] for row in known], [row[what] for row in known])
        off = max(abs(math.log(row[what] / (scale * row["n"] ** exponent))) for row in known)
        laws |= {f"{what}_exponent": exponent, what: scale * to**exponent, f"{what}_off": math.exp(off) - 1}
    return laws


def _expected(small: dict[str, float], first: int, n: int, heads: int) -> float:
    """Seconds that measuring one n takes, from what each kind took at another: the work grows as n², a window's as n."""
    once = {kind: took * (n / first) ** (1 if kind == "windowed" else 2) for kind, took in small.items()}
    if heads * n * n * FLOAT32 > ROOM:
        once.pop("plain", None)
    return sum(report.race_takes(took) + took for took in once.values())


def _expected_training(context: int, seed: int) -> list[float]:
    """Of the plain and the fused step, by a fused one."""
    return [report.race_takes(small_step(_stepper(context, seed)))] * 2


def _stepper(context: int, seed: int, compiled: bool = False) -> Callable[[], float]:
    """One step (forward, backward, AdamW) of a small GPT."""
    import torch

    from ..model.config import Config
    from ..model.transformer import Transformer
    from ..train.optim import descend
    from ..train.tasks import summed_loss

    torch.manual_seed(seed)
    ids = torch.randint(VOCAB, (BATCH, context + 1))
    plain = Transformer(Config(vocab=VOCAB, width=WIDTH, n_layer=LAYERS, n_head=HEADS, context=context))
    model = torch.compile(plain) if compiled else plain
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3)

    def step() -> float:
        loss, count = summed_loss(model(ids[:, :-1]), ids[:, 1:])
        descend([optimizer], loss / count)
        return loss.item()

    return step


def _training(context: int, seed: int, compiled: bool, tick: Callable[[int], None]) -> list[Row]:
    """That step by each road; the best of several."""
    from ..attention import heads
    from ..train.machine import compiler

    made = []
    # Models ask for the fastest kernel; here alone they are made to take the plain one.
    with mock.patch.object(heads, "attend", partial(heads.attend, kernel="plain")):
        made.append({"kind": "plain", "seconds": report.race({"": _stepper(context, seed)})[""]})
    tick(0)
    made.append({"kind": "fused", "seconds": report.race({"": _stepper(context, seed)})[""]})
    tick(1)
    if not compiled:
        return made
    if not compiler():
        made.append({"kind": "compiled", "seconds": None, "why": "none"})
    else:
        warnings.warn(
            Notice("torch compiles the training step now; how long that takes can't be told beforehand"), stacklevel=2
        )
        step = _stepper(context, seed, compiled=True)
        begun = time.perf_counter()
        try:
            step()
            first = time.perf_counter() - begun
            made.append({"kind": "compiled", "seconds": report.race({"": step})[""], "first": first})
        except Exception as error:  # what a compiler that is there but doesn't work may raise has no common name
            why = f"{type(error).__name__}: {error}".split("\n")[0]
            made.append({"kind": "compiled", "seconds": None, "why": "failed", "error": why})
    return made


WHAT = {"seconds": _("time"), "bytes": _("memory")}
CELLS = [(what, kind) for what in ("seconds", "bytes") for kind in KINDS]
LENGTHS = (
    Column("n"),
    *(Column(f"{kind}.{what}", report.duration if what == "seconds" else report.amount) for what, kind in CELLS),
)
STEPS = (
    Column(lambda row: say(CALLED[row["kind"]])),
    Column("seconds", report.duration),
    Column(lambda row: None if row["seconds"] is None else f"{row['plain'] / row['seconds']:.2f}×"),
)


def tables(results: Results) -> list[report.Table]:
    """Measured and extrapolated; then the training step."""
    sizes, laws = results["sizes"], results["laws"]
    by = {(row["n"], row["kind"]): row for row in results["rows"]}
    rows: list[Row] = [{"n": f"{n:,}", **{kind: by[n, kind] for kind in KINDS}} for n in sizes["lengths"]]
    measured = report.table(
        say(
            "One attention, forward, {heads} × {width} wide, window {window} (— : one matrix would be too large)",
            **sizes,
        ),
        ["n", *(f"{say(CALLED[kind])} {say(WHAT[what])}" for what, kind in CELLS)],
        LENGTHS,
        [*rows, {"n": f"≈ {sizes['to']:,}", **laws}],
    )
    exponents = [say("law ∝"), *(f"n^{laws[kind][f'{what}_exponent']:.2f}" for what, kind in CELLS)]
    shape = dict(layers=LAYERS, width=WIDTH, heads=HEADS, batch=BATCH, context=sizes["context"])
    return [
        measured._replace(rows=[*measured.rows[:-1], exponents, measured.rows[-1]]),
        report.table(
            say(
                "One training step of a GPT: {layers} layers, width {width}, {heads} heads, {batch} × {context} tokens",
                **shape,
            ),
            say("road|time|against plain").split("|"),
            STEPS,
            [{**step, "plain": results["steps"][0]["seconds"]} for step in results["steps"]],
        ),
    ]


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """The laws, the matrix nobody can hold, and the training step."""
    laws, n = results["laws"], results["sizes"]["to"]
    law = _(
        "{kind}: time grows as n^{seconds_exponent:.2f}, memory as n^{bytes_exponent:.2f}; at n = {n:,} that makes about "
        "{seconds:duration} and {bytes:amount}."
    )
    for kind in KINDS:
        yield sentence(law, kind=say(CALLED[kind]), n=n, **laws[kind])
    matrix = _(
        "One matrix of {n:,} × {n:,} weights has {entries:power} entries and takes {bytes:amount} in float32, for one head "
        "of one layer."
    )
    yield sentence(matrix, n=n, **results["matrix"])
    ratio = laws["plain"]["bytes"] / laws["fused"]["bytes"]
    saves = _(
        "The fused kernel computes the same numbers without holding that matrix, in 1/{ratio} of the memory there."
    )
    if ratio <= 1.5:
        saves = _(
            "By these measurements the fused kernel would need {ratio} times less memory there: no great saving at these sizes."
        )
    yield sentence(saves, ratio=f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}")
    plain, fused, *compiled = results["steps"]
    step = _(
        "A whole training step takes {plain:duration} with plain attention and {fused:duration} with the fused kernel "
        "({ratio:.2f} times as fast): attention is only a part of it."
    )
    yield sentence(step, plain=plain["seconds"], fused=fused["seconds"], ratio=plain["seconds"] / fused["seconds"])
    if not compiled:
        yield say("--compile measures a compiled step too.")
    took = _(
        "Compiled, it takes {seconds:duration} ({ratio:.2f} times as fast as fused), after {first:duration} for the first "
        "step."
    )
    for row in compiled:
        known = row["seconds"] is not None
        yield sentence(
            took if known else WHY[row["why"]], ratio=fused["seconds"] / row["seconds"] if known else 0, **row
        )
    worst = max(laws[kind]["seconds_off"] for kind in KINDS)
    fits = _("The laws of time miss no measured point that they are fitted to by more than {off:.0%}.")
    if worst >= LOOSE:
        fits = _(
            "But the times don't lie on such laws (a measured point is off by {off:.0%}), so their exponents and what "
            "they give for long texts say little: measure again on a quiet machine, or with longer texts."
        )
    yield sentence(fits, off=worst)


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Log-log: points that were measured, laws that carry on; and the steps as bars."""
    figure = report.canvas(1, 3, each=(4.1, 3.6))
    to = results["sizes"]["to"]
    for at, (what, title) in enumerate((("seconds", say("time of one attention")), ("bytes", say("peak memory")))):
        axes = report.panel(figure, 1, 3, at + 1, title=title, x="n")
        axes.set_xscale("log")
        axes.set_yscale("log")
        for kind, ink in zip(KINDS, (report.INK[1], report.INK[0], report.INK[2]), strict=True):
            known = [row for row in results["rows"] if row["kind"] == kind and row[what] is not None]
            exponent = results["laws"][kind][f"{what}_exponent"]
            label = f"{say(CALLED[kind])}: ∝ n^{exponent:.2f}"
            axes.plot([row["n"] for row in known], [row[what] for row in known], "o", color=ink, markersize=4)
            begin = known[-FITTED]["n"]
            end = results["laws"][kind][what]
            axes.plot([begin, to], [end * (begin / to) ** exponent, end], "--", color=ink, linewidth=1, label=label)
            axes.plot([to], [end], "o", markerfacecolor="white", color=ink, markersize=5)
        if what == "bytes":
            axes.axhline(results["matrix"]["bytes"], color=report.INK[4], linestyle=":", linewidth=1)
            axes.annotate(
                say("one {to:,}² matrix: ", to=to) + report.amount(results["matrix"]["bytes"]),
                (axes.get_xlim()[0], results["matrix"]["bytes"]),
                fontsize=8,
                va="top",
                xytext=(4, -2),
                textcoords="offset points",
            )
        report.name_ticks(axes.yaxis, report.duration if what == "seconds" else report.amount)
        axes.legend(
            fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0.0, 1.0 if what == "seconds" else 0.9)
        )
    known = [step for step in results["steps"] if step["seconds"] is not None]
    axes = report.panel(figure, 1, 3, 3, title=say("one training step"), x=say("ms"))
    inks = {"plain": report.INK[1], "fused": report.INK[0], "compiled": report.INK[3]}
    for at, step in enumerate(known):
        axes.barh(at, step["seconds"] * 1e3, color=inks[step["kind"]], height=0.55)
        axes.annotate(f" {report.duration(step['seconds'])}", (step["seconds"] * 1e3, at), va="center", fontsize=8)
    axes.set_yticks(range(len(known)), [say(CALLED[step["kind"]]) for step in known])
    axes.set_xlim(0, max(step["seconds"] for step in known) * 1.3e3)
    axes.invert_yaxis()
    return report.finish(figure, path)
