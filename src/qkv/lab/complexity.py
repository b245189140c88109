"""Time and memory of plain, fused and windowed attention against the length n of the text.

Plain attention stores the n×n matrix of scores; the fused kernel computes it in blocks and never stores it; a window skips
most of it. Each is measured at several n; a power law is fitted to the largest of them and extrapolated. Then a whole
training step is timed, plain, fused and compiled.
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
PILOT_LENGTH = 1024  # largest n of the pilot measurement that predicts the total time
FIT_POINTS = 3  # number of longest texts that the law is fitted to: in short ones the overhead of the call dominates
MAX_MISFIT = 0.3  # largest relative error at a measured point for which the law is trusted
FLOAT32_BYTES = 4
MAX_MATRIX_BYTES = 6e8  # plain attention is skipped if one matrix of scores takes more bytes
WIDTH, LAYERS, HEADS, BATCH, VOCAB = 128, 2, 4, 4, 256  # of the model whose training step is measured


LABELS = {"plain": _("plain"), "fused": _("fused"), "windowed": _("windowed"), "compiled": _("compiled")}
NOT_COMPILED = {
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
    """Measure time and peak memory of each kind at each n, fit their laws, and time the training step."""
    if len(lengths) < FIT_POINTS:
        raise Problem("{n} lengths are too few to fit a law: give {least} or more", n=len(lengths), least=FIT_POINTS)
    if sum(heads * n * n * FLOAT32_BYTES <= MAX_MATRIX_BYTES for n in lengths) < FIT_POINTS:
        raise Problem(
            "plain attention can be measured up to n = {most} here: give {least} lengths up to that, or fewer heads",
            most=int((MAX_MATRIX_BYTES / FLOAT32_BYTES / heads) ** 0.5),
            least=FIT_POINTS,
        )
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # silences the profiler
    import torch

    from ..attention import masks
    from ..attention.dispatch import attend

    def kernel_calls(n: int) -> dict[str, Callable[[], object]]:
        q, k, v = (torch.randn(1, heads, n, width) for _ in range(3))
        calls: dict[str, Callable[[], object]] = {
            "plain": partial(attend, q, k, v, kernel="plain"),
            "fused": partial(attend, q, k, v),
            "windowed": partial(attend, q, k, v, masks.window(window)),
        }
        if heads * n * n * FLOAT32_BYTES > MAX_MATRIX_BYTES:
            calls.pop("plain")
        return calls

    load = report.load_per_core()
    pilot_length = min(PILOT_LENGTH, lengths[-1])
    with torch.no_grad():
        pilot_times = {kind: small_step(call) for kind, call in kernel_calls(pilot_length).items()}
    expected = [_expected_seconds(pilot_times, pilot_length, n, heads) for n in lengths]
    training = report.race_seconds(small_step(_training_step(context, seed)))  # of the fused step
    course = Course(progress, [*expected, training, training])
    torch.manual_seed(seed)
    rows: list[Row] = []
    for part, n in enumerate(lengths):
        calls = kernel_calls(n)
        with torch.no_grad():
            times = report.race(calls)
            for kind in KINDS:
                peak = report.peak_bytes(calls[kind]) if kind in calls else None
                rows.append({"n": n, "kind": kind, "seconds": times.get(kind), "bytes": peak})
        course(part)
    laws = {kind: fit_laws([row for row in rows if row["kind"] == kind], to) for kind in KINDS}
    steps = _time_steps(context, seed, compile == 1, lambda done: course(len(lengths) + done))
    matrix = {"entries": to * to, "bytes": FLOAT32_BYTES * to * to}
    return {
        "rows": rows,
        "laws": laws,
        "matrix": matrix,
        "steps": steps,
        "threads": torch.get_num_threads(),
        "busy": load,
    }


def fit_laws(rows: list[Row], to: int) -> dict[str, float]:
    """Fit power laws to the time and memory of one kind on its longest texts, and extrapolate to n = `to`."""
    points = [row for row in rows if row["seconds"] is not None][-FIT_POINTS:]
    laws: dict[str, float] = {}
    for quantity in ("seconds", "bytes"):
        scale, exponent = report.power_law([row["n"] for row in points], [row[quantity] for row in points])
        misfit = max(abs(math.log(row[quantity] / (scale * row["n"] ** exponent))) for row in points)
        laws[quantity] = scale * to**exponent
        laws |= {f"{quantity}_exponent": exponent, f"{quantity}_off": math.exp(misfit) - 1}
    return laws


def _expected_seconds(pilot_times: dict[str, float], pilot_length: int, n: int, heads: int) -> float:
    """Return the expected seconds of measuring one n: work grows as n², for a window as n."""
    total = 0.0
    for kind, pilot in pilot_times.items():
        if kind != "plain" or heads * n * n * FLOAT32_BYTES <= MAX_MATRIX_BYTES:
            seconds = pilot * (n / pilot_length) ** (1 if kind == "windowed" else 2)
            total += report.race_seconds(seconds) + seconds
    return total


def _training_step(context: int, seed: int, compiled: bool = False) -> Callable[[], float]:
    """Return a function that runs one training step (forward, backward, AdamW) of a small GPT."""
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


def _time_steps(context: int, seed: int, compiled: bool, on_step: Callable[[int], None]) -> list[Row]:
    """Time the training step with each kernel; the best of several runs."""
    from ..attention import heads
    from ..train.machine import compiler

    rows = []
    # Models use the fastest kernel; this forces the plain one.
    with mock.patch.object(heads, "attend", partial(heads.attend, kernel="plain")):
        rows.append({"kind": "plain", "seconds": report.race({"": _training_step(context, seed)})[""]})
    on_step(0)
    rows.append({"kind": "fused", "seconds": report.race({"": _training_step(context, seed)})[""]})
    on_step(1)
    if not compiled:
        return rows
    if not compiler():
        rows.append({"kind": "compiled", "seconds": None, "why": "none"})
    else:
        warnings.warn(
            Notice("torch.compile now compiles the training step; how long this takes can't be predicted"), stacklevel=2
        )
        step = _training_step(context, seed, compiled=True)
        start = time.perf_counter()
        try:
            step()
            first = time.perf_counter() - start
            rows.append({"kind": "compiled", "seconds": report.race({"": step})[""], "first": first})
        except Exception as error:  # errors of a broken compiler have no common class
            why = f"{type(error).__name__}: {error}".split("\n")[0]
            rows.append({"kind": "compiled", "seconds": None, "why": "failed", "error": why})
    return rows


QUANTITIES = {"seconds": _("time"), "bytes": _("memory")}
CELLS = [(what, kind) for what in ("seconds", "bytes") for kind in KINDS]
LENGTH_COLUMNS = (
    Column("n"),
    *(Column(f"{kind}.{what}", report.duration if what == "seconds" else report.amount) for what, kind in CELLS),
)
STEP_COLUMNS = (
    Column(lambda row: say(LABELS[row["kind"]])),
    Column("seconds", report.duration),
    Column(lambda row: None if row["seconds"] is None else f"{row['plain'] / row['seconds']:.2f}×"),
)


def tables(results: Results) -> list[report.Table]:
    """Return the table of measured and extrapolated costs, and the table of the training step."""
    sizes, laws = results["sizes"], results["laws"]
    by_cell = {(row["n"], row["kind"]): row for row in results["rows"]}
    rows: list[Row] = [{"n": f"{n:,}", **{kind: by_cell[n, kind] for kind in KINDS}} for n in sizes["lengths"]]
    measured = report.table(
        say(
            "One attention, forward, {heads} × {width} wide, window {window} (— : one matrix would be too large)",
            **sizes,
        ),
        ["n", *(f"{say(LABELS[kind])} {say(QUANTITIES[quantity])}" for quantity, kind in CELLS)],
        LENGTH_COLUMNS,
        [*rows, {"n": f"≈ {sizes['to']:,}", **laws}],
    )
    exponents = [say("law ∝"), *(f"n^{laws[kind][f'{quantity}_exponent']:.2f}" for quantity, kind in CELLS)]
    shape = dict(layers=LAYERS, width=WIDTH, heads=HEADS, batch=BATCH, context=sizes["context"])
    return [
        measured._replace(rows=[*measured.rows[:-1], exponents, measured.rows[-1]]),
        report.table(
            say(
                "One training step of a GPT: {layers} layers, width {width}, {heads} heads, {batch} × {context} tokens",
                **shape,
            ),
            say("kernel|time|against plain").split("|"),
            STEP_COLUMNS,
            [{**step, "plain": results["steps"][0]["seconds"]} for step in results["steps"]],
        ),
    ]


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Summarize the laws, the size of the score matrix, and the training step."""
    laws, n = results["laws"], results["sizes"]["to"]
    law_text = _(
        "{kind}: time grows as n^{seconds_exponent:.2f}, memory as n^{bytes_exponent:.2f}; at n = {n:,} that makes about "
        "{seconds:duration} and {bytes:amount}."
    )
    for kind in KINDS:
        yield sentence(law_text, kind=say(LABELS[kind]), n=n, **laws[kind])
    matrix_text = _(
        "One matrix of {n:,} × {n:,} weights has {entries:power} entries and takes {bytes:amount} in float32, for one head "
        "of one layer."
    )
    yield sentence(matrix_text, n=n, **results["matrix"])
    ratio = laws["plain"]["bytes"] / laws["fused"]["bytes"]
    savings = _(
        "The fused kernel computes the same numbers without holding that matrix, in 1/{ratio} of the memory there."
    )
    if ratio <= 1.5:
        savings = _(
            "By these measurements the fused kernel would need {ratio} times less memory there: no great saving at these sizes."
        )
    yield sentence(savings, ratio=f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}")
    plain, fused, *compiled = results["steps"]
    step_text = _(
        "A whole training step takes {plain:duration} with plain attention and {fused:duration} with the fused kernel "
        "({ratio:.2f} times as fast): attention is only a part of it."
    )
    yield sentence(step_text, plain=plain["seconds"], fused=fused["seconds"], ratio=plain["seconds"] / fused["seconds"])
    if not compiled:
        yield say("--compile measures a compiled step too.")
    compiled_text = _(
        "Compiled, it takes {seconds:duration} ({ratio:.2f} times as fast as fused), after {first:duration} for the first "
        "step."
    )
    for row in compiled:
        if row["seconds"] is None:
            yield sentence(NOT_COMPILED[row["why"]], **row)
        else:
            yield sentence(compiled_text, ratio=fused["seconds"] / row["seconds"], **row)
    misfit = max(laws[kind]["seconds_off"] for kind in KINDS)
    fit_text = _("The laws of time miss no measured point that they are fitted to by more than {off:.0%}.")
    if misfit >= MAX_MISFIT:
        fit_text = _(
            "But the times don't follow power laws (a measured point is off by {off:.0%}), so the exponents and what "
            "they give for long texts say little: measure again on a quiet machine, or with longer texts."
        )
    yield sentence(fit_text, off=misfit)


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Plot measured points and laws in log-log axes, and the training steps as bars."""
    figure = report.canvas(1, 3, each=(4.1, 3.6))
    to = results["sizes"]["to"]
    titles = {"seconds": say("time of one attention"), "bytes": say("peak memory")}
    for index, (quantity, title) in enumerate(titles.items()):
        axes = report.panel(figure, 1, 3, index + 1, title=title, x="n")
        axes.set(xscale="log", yscale="log")
        for kind, color in zip(KINDS, (report.INK[1], report.INK[0], report.INK[2]), strict=True):
            points = [row for row in results["rows"] if row["kind"] == kind and row[quantity] is not None]
            exponent = results["laws"][kind][f"{quantity}_exponent"]
            label = f"{say(LABELS[kind])}: ∝ n^{exponent:.2f}"
            axes.plot([row["n"] for row in points], [row[quantity] for row in points], "o", color=color, markersize=4)
            begin = points[-FIT_POINTS]["n"]
            end = results["laws"][kind][quantity]
            axes.plot([begin, to], [end * (begin / to) ** exponent, end], "--", color=color, linewidth=1, label=label)
            axes.plot([to], [end], "o", markerfacecolor="white", color=color, markersize=5)
        if quantity == "bytes":
            axes.axhline(results["matrix"]["bytes"], color=report.INK[4], linestyle=":", linewidth=1)
            axes.annotate(
                say("one {to:,}² matrix: ", to=to) + report.amount(results["matrix"]["bytes"]),
                (axes.get_xlim()[0], results["matrix"]["bytes"]),
                fontsize=8,
                va="top",
                xytext=(4, -2),
                textcoords="offset points",
            )
        report.format_ticks(axes.yaxis, report.duration if quantity == "seconds" else report.amount)
        axes.legend(
            fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0.0, 1.0 if quantity == "seconds" else 0.9)
        )
    points = [step for step in results["steps"] if step["seconds"] is not None]
    axes = report.panel(figure, 1, 3, 3, title=say("one training step"), x=say("ms"))
    colors = {"plain": report.INK[1], "fused": report.INK[0], "compiled": report.INK[3]}
    for index, step in enumerate(points):
        axes.barh(index, step["seconds"] * 1e3, color=colors[step["kind"]], height=0.55)
        axes.annotate(f" {report.duration(step['seconds'])}", (step["seconds"] * 1e3, index), va="center", fontsize=8)
    axes.set_yticks(range(len(points)), [say(LABELS[step["kind"]]) for step in points])
    axes.set_xlim(0, max(step["seconds"] for step in points) * 1.3e3)
    axes.invert_yaxis()
    return report.finish(figure, path)
