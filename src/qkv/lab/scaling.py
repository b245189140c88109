"""Why scores are divided by √d_k: large scores saturate softmax, and its gradient vanishes.

A score is a sum of d_k products of numbers with standard deviation 1, so its own standard deviation is √d_k. Softmax of
such numbers comes close to 1 for the largest and 0 for the rest; its Jacobian, ∂wᵢ/∂sⱼ = wᵢ(δᵢⱼ − wⱼ), then comes close
to 0 everywhere, and no gradient passes. Dividing by √d_k brings the standard deviation back to 1 for every d_k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..i18n import _, say
from . import Course, Progress, Results, Row, report, small_step
from .report import Column, sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = np.ndarray
BINS = 60
PILOT_FRACTION = 16  # the pilot step has 1/16 of the queries


def measure(
    *, numbers: int, std: float, widths: tuple[int, ...], keys: int, queries: int, seed: int, progress: Progress
) -> Results:
    """Measure softmax of numbers with a wide and a narrow spread, and of dot products with and without √d_k."""
    rng = np.random.default_rng(seed)
    standard = rng.standard_normal(numbers)
    pilot_queries, pilot_rng = -(-queries // PILOT_FRACTION), np.random.default_rng(seed)
    pilot_seconds = [small_step(partial(_compare_scaling, pilot_rng, width, pilot_queries, keys)) for width in widths]
    course = Course(progress, [took * queries / pilot_queries for took in pilot_seconds])
    rows = []
    for part, width in enumerate(widths):
        rows.append(_compare_scaling(rng, width, queries, keys))
        course(part)
    spreads = [_measure_spread(standard * wide, wide) for wide in (std, 1.0)]
    return {"spreads": spreads, "widths": rows, "most_entropy": math.log(keys)}


def _compare_scaling(rng: np.random.Generator, width: int, queries: int, keys: int) -> Row:
    """Compare softmax of q·k and of q·k / √d_k for random queries and keys of this width."""
    q, k = rng.standard_normal((queries, width)), rng.standard_normal((keys, width))
    scores = q @ k.T  # (queries, keys)
    return {"width": width, "raw": _softmax_stats(scores), "scaled": _softmax_stats(scores / math.sqrt(width))}


def log_softmax(scores: Floats) -> Floats:
    """Return ln softmax of each row, which stays finite where a weight underflows to 0."""
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def entropy(logs: Floats) -> Floats:
    """Return −Σ w·ln w of each row of ln w: 0 if one key has all weight, ln n for n equal weights."""
    return -(np.exp(logs) * logs).sum(-1)


def jacobian_size(weights: Floats) -> Floats:
    """Return the Frobenius norm of ∂w/∂s = diag(w) − w·wᵀ of each row, without building the matrix.

    Σᵢⱼ (wᵢδᵢⱼ − wᵢwⱼ)² = Σw² − 2Σw³ + (Σw²)².

    >>> float(jacobian_size(np.array([0.5, 0.5]))), float(jacobian_size(np.array([1.0, 0.0])))
    (0.5, 0.0)
    """
    square = (weights**2).sum(-1)
    return np.sqrt(np.maximum(square - 2 * (weights**3).sum(-1) + square**2, 0))


def _softmax_stats(scores: Floats) -> dict[str, float]:
    """Return statistics of softmax, averaged over the rows of scores."""
    logs = log_softmax(scores)
    weights = np.exp(logs)
    return {
        "std": float(scores.std()),
        "entropy": float(entropy(logs).mean()),
        "largest": float(weights.max(-1).mean()),
        "gradient": float(jacobian_size(weights).mean()),
    }


def _measure_spread(values: Floats, std: float) -> Row:
    logs = log_softmax(values)
    weights, n = np.exp(logs), len(values)
    before, after = np.histogram(values, BINS), np.histogram(weights, BINS, (0, weights.max()))
    return {
        "std": std,
        "measured_std": float(values.std()),
        "largest": float(weights.max()),
        "above_even": int((weights > 1 / n).sum()),
        "entropy": float(entropy(logs)),
        "most_entropy": math.log(n),
        "before": {"counts": before[0].tolist(), "edges": before[1].tolist()},
        "after": {"counts": after[0].tolist(), "edges": after[1].tolist()},
    }


MEASURES = ("entropy", "largest", "gradient")
SPREAD_COLUMNS = (
    Column("std", "g"),
    Column("measured_std", ".4g"),
    Column("largest", ".4g"),
    Column("above_even", ","),
    Column(lambda row: f"{row['entropy']:.3f} / {row['most_entropy']:.3f}"),
    Column(lambda row: math.exp(row["entropy"]), ",.1f"),
)
WIDTH_COLUMNS = (
    Column("width"),
    Column("raw.std", ".2f"),
    Column(lambda row: math.sqrt(row["width"]), ".2f"),
    *(
        Column(f"{kind}.{what}", ".4f" if what == "gradient" else ".3f")
        for what in MEASURES
        for kind in ("raw", "scaled")
    ),
)


def tables(results: Results) -> list[report.Table]:
    """Return a table of the spreads and a table of the widths."""
    sizes = results["sizes"]
    header = [f"{name} {kind}" for name in say("entropy largest gradient").split() for kind in (say("raw"), "/√d")]
    return [
        report.table(
            say("Softmax of {n} random numbers, with a wide and with a narrow spread", n=f"{sizes['numbers']:,}"),
            say("std|measured|largest weight|above 1/n|entropy / most|shared by").split("|"),
            SPREAD_COLUMNS,
            results["spreads"],
        ),
        report.table(
            say("Softmax of dot products of random q and k: {queries} queries, {keys} keys each", **sizes),
            ["d_k", say("std of q·k"), "√d_k", *header],
            WIDTH_COLUMNS,
            results["widths"],
        ),
    ]


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Summarize the spreads, and how entropy and gradient change with d_k."""
    wide, narrow = results["spreads"]
    yield sentence(
        _(
            "Of {n:,} numbers with a standard deviation of {wide[std]:g}, softmax gives the largest {wide[largest]:share} of "
            "all weight; above an even share: {wide[above_even]:,}; spread as over {shared:,.1f} equal ones. The same numbers "
            "with a standard deviation of 1: the largest gets {narrow[largest]:share}; above an even share: "
            "{narrow[above_even]:,}; spread as over {others:,.0f} equal ones."
        ),
        n=results["sizes"]["numbers"],
        wide=wide,
        shared=math.exp(wide["entropy"]),
        narrow=narrow,
        others=math.exp(narrow["entropy"]),
    )
    rows = results["widths"]
    first, last, highest = rows[0], rows[-1], max(rows, key=lambda row: row["raw"]["gradient"])
    scaled = {what: [row["scaled"][what] for row in rows] for what in ("entropy", "gradient")}
    if len(rows) == 1:
        grows = _(
            "At d_k = {last[width]}, the weights of undivided scores have an entropy of {last[raw][entropy]:.2f} (of at most {most:.2f}) and pass a gradient of {last[raw][gradient]:.3g}; divided by √d_k, {low[entropy]:.2f} and {low[gradient]:.3g}. Give several --widths to see how it grows."
        )
    elif all(last["raw"][what] < first["raw"][what] for what in scaled):
        grows = _(
            "From d_k = {first[width]} to {last[width]}, undivided scores grow wider, the entropy of the weights falls from {first[raw][entropy]:.2f} to {last[raw][entropy]:.2f} (of at most {most:.2f}) and the gradient that passes softmax from {first[raw][gradient]:.3g} to {last[raw][gradient]:.3g} (most: {highest[raw][gradient]:.3g} at d_k = {highest[width]}). Divided by √d_k, the entropy stays between {low[entropy]:.2f} and {high[entropy]:.2f} and the gradient between {low[gradient]:.3g} and {high[gradient]:.3g}, whatever d_k is."
        )
    else:
        grows = _(
            "From d_k = {first[width]} to {last[width]}, the entropy of undivided scores went from {first[raw][entropy]:.2f} to {last[raw][entropy]:.2f} (of at most {most:.2f}) and the gradient from {first[raw][gradient]:.3g} to {last[raw][gradient]:.3g}: with these sizes they don't both fall. Divided by √d_k, the entropy lies between {low[entropy]:.2f} and {high[entropy]:.2f}, the gradient between {low[gradient]:.3g} and {high[gradient]:.3g}."
        )
    low, high = ({what: choose(values) for what, values in scaled.items()} for choose in (min, max))
    yield sentence(grows, first=first, last=last, highest=highest, low=low, high=high, most=results["most_entropy"])
    ratio = last["scaled"]["gradient"] / max(last["raw"]["gradient"], 1e-300)
    helps = _("At d_k = {width}, dividing lets {ratio:.3g} times as much gradient through to the scores.")
    if ratio <= 1:
        helps = _(
            "At d_k = {width}, dividing lets {ratio:.3g} times as much gradient through to the scores: here it doesn't help."
        )
    yield sentence(helps, width=last["width"], ratio=ratio)


def draw(results: Results, path: str | Path | None = None) -> Figure:
    """Plot histograms before and after softmax, and entropy and gradient against d_k."""
    figure = report.canvas(2, 3)
    for row_index, (row, color) in enumerate(zip(results["spreads"], report.INK[1::-1], strict=True)):
        title = say("before: std {std}", std=f"{row['std']:g}")
        axes = report.panel(figure, 2, 3, 3 * row_index + 1, title=title, y=say("how many"))
        axes.stairs(row["before"]["counts"], row["before"]["edges"], fill=True, color=color, alpha=0.85)
        title = say("after softmax: largest {largest:.2g}", largest=row["largest"])
        axes = report.panel(figure, 2, 3, 3 * row_index + 2, title=title, x=say("weight"))
        # log scale, so that a single weight near 1 beside 19,999 near 0 is visible
        axes.stairs(row["after"]["counts"], row["after"]["edges"], fill=True, color=color, alpha=0.85, baseline=0.5)
        axes.set_yscale("log")
        axes.locator_params(axis="x", nbins=4)
        axes.set_ylim(bottom=0.5)
    widths = [row["width"] for row in results["widths"]]
    for row_index, (what, title) in enumerate(
        (("entropy", say("entropy of the weights")), ("gradient", say("size of ∂w/∂s")))
    ):
        axes = report.panel(figure, 2, 3, 3 * row_index + 3, title=title, x="d_k")
        for kind, color, label in (("scaled", report.INK[0], "q·k / √d_k"), ("raw", report.INK[1], "q·k")):
            axes.plot(
                widths, [row[kind][what] for row in results["widths"]], "o-", color=color, label=label, markersize=4
            )
        if what == "entropy":
            axes.axhline(results["most_entropy"], color=report.INK[4], linewidth=0.8, linestyle=":")
        axes.set_xscale("log", base=2)
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8, frameon=False)
    return report.finish(figure, path)
