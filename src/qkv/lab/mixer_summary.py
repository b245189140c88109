"""Statistics of `qkv lab mixers` over the seeds, and the paragraph that summarizes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from statistics import fmean

import numpy as np

from ..i18n import Listed, _, all_of, say
from . import Results, Row, report
from .mixer_contest import KINDS
from .report import sentence

RECALLED = 0.9  # accuracy from which a number of pairs counts as recalled
MIN_GROWTH = 1.5  # ratio of memory from the shortest to the longest context that counts as growth

LABELS = {
    "attention": _("attention"),
    "window": _("windowed attention"),
    "retention": _("retention"),
    "mamba2": "Mamba-2",
    "delta": _("gated delta"),
    "hybrid": _("hybrid"),
}


def by_kind(rows: list[Row]) -> dict[str, list[Row]]:
    return {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}


def final_losses(results: Results) -> dict[str, list[float]]:
    """Return the final loss of every seed by kind."""
    return {
        kind: [row["looks"][-1]["score"][0] for row in rows] for kind, rows in by_kind(results["text"]["rows"]).items()
    }


def timed_losses(results: Results) -> tuple[float, dict[str, float]]:
    """Return the training time of the fastest kind, and the mean loss of each kind after that time."""
    runs = by_kind(results["text"]["rows"])
    seconds = min(fmean(row["looks"][-1]["seconds"] for row in rows) for rows in runs.values())
    return seconds, {kind: fmean(loss_at(row["looks"], seconds) for row in rows) for kind, rows in runs.items()}


def loss_at(looks: list[Row], seconds: float) -> float:
    """Return the loss after so many seconds, interpolated between evaluations; before the first, the first loss.

    >>> loss_at([{"seconds": 1.0, "score": [3.0]}, {"seconds": 3.0, "score": [2.0]}], 2.0)
    2.5
    """
    return float(np.interp(seconds, [look["seconds"] for look in looks], [look["score"][0] for look in looks]))


def recall_shares(results: Results) -> dict[str, list[list[float]]]:
    """Return for each kind and number of pairs the accuracy of every seed."""
    return {
        kind: [list(shares) for shares in zip(*(row["looks"][-1]["score"] for row in rows), strict=True)]
        for kind, rows in by_kind(results["recall"]["rows"]).items()
    }


def mean_and_range(values: list[float], digits: int = 3) -> str:
    """Return the mean with half of the range of the values.

    >>> mean_and_range([1.0, 1.1, 1.2]), mean_and_range([2.0])
    ('1.100 ±0.100', '2.000')
    """
    half_range = (max(values) - min(values)) / 2
    return f"{fmean(values):.{digits}f}" + (f" ±{half_range:.{digits}f}" if len(values) > 1 else "")


def memory(row: Row) -> int:
    return row["kept"] + row["worked"]


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """Summarize the sizes, the losses on text, recall and the cost of a token."""
    for summarize in (_summarize_sizes, _summarize_text, _summarize_recall, _summarize_cost):
        yield from summarize(results)


def _summarize_sizes(results: Results) -> Iterator[str]:
    counts = [[model["parameters"][task] for model in results["models"]] for task in results["sweep"]]
    off = max(max(of) / min(of) - 1 for of in counts)
    yield sentence(
        _("Six models of one width and depth differ by at most {off:share} in their number of weights."), off=off
    )
    yield say(
        _("Each learned each task at the rate that was best for it there in a sweep of this run ({rates}).")
        if results["tuned"]
        else _(
            "Each learned each task at the rate that was best for it there in a recorded sweep with the default sizes "
            "({rates}; --tune sweeps again, with yours)."
        ),
        rates=all_of(f"{rate:g}" for rate in results["tried"]),
    )
    edges = [
        model["kind"]
        for model in results["models"]
        for task, better in (("text", min), ("recall", max))
        if task in results["sweep"]
        and (tried := results["sweep"][task][model["kind"]])
        and better(tried) not in tried[1:-1]
    ]
    if edges:
        yield say(
            "For {names} the best was the lowest or the highest that was tried: beyond it may lie a better one.",
            names=_kind_names(list(dict.fromkeys(edges))),
        )


def _kind_names(kinds: list[str]) -> Listed:
    return all_of(say(LABELS[kind]) for kind in kinds)


def _summarize_text(results: Results) -> Iterator[str]:
    source = results["text"]["source"]
    if not results["text"]["rows"]:
        text = _("No text was learned: {name} is not here. Get it with  qkv data get {name}, or give --text FILE.")
        yield say(text, name=source)
        return
    losses, (seconds, losses_in_time) = final_losses(results), timed_losses(results)
    order = sorted(KINDS, key=lambda kind: fmean(losses[kind]))
    best, worst = order[0], order[-1]
    overlapping = [kind for kind in order[1:] if min(losses[kind]) <= max(losses[best])]
    text = _(
        "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}); no other's "
        "seeds reach into those of {best}."
    )
    if len(losses[best]) == 1:
        text = _(
            "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}), by one "
            "seed each: small differences may be chance."
        )
    elif overlapping:
        text = _(
            "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}); the seeds "
            "of {near} overlap with those of {best}, so that these can't be told apart."
        )
    low, high = (mean_and_range(losses[kind]) for kind in (best, worst))
    names = dict(best=say(LABELS[best]), last=say(LABELS[worst]), near=_kind_names(overlapping))
    yield say(text, text=source, low=low, high=high, **names)
    leader = min(losses_in_time, key=lambda kind: losses_in_time[kind])
    text = _(
        "In the same time ({seconds:duration}, what the quickest needed for all steps) {quick} leads too, with {loss:.3f}."
    )
    if leader != best:
        text = _(
            "In the same time ({seconds:duration}, what the quickest needed for all steps) another leads: {quick}, with "
            "{loss:.3f}."
        )
    yield sentence(text, seconds=seconds, quick=say(LABELS[leader]), loss=losses_in_time[leader])


def _summarize_recall(results: Results) -> Iterator[str]:
    pairs, means = results["sizes"]["pairs"], {k: [fmean(s) for s in v] for k, v in recall_shares(results).items()}
    limits_by_kind = {kind: _recall_limit(pairs, shares) for kind, shares in means.items()}
    complete = [kind for kind in KINDS if limits_by_kind[kind] == pairs[-1]]
    text = _("No model recalled {good:share} of the pairs at every number up to {last}: give more --recall-steps.")
    if complete:
        text = _("Of pairs seen once, {names} recalled {good:share} or more, at every number up to {last}.")
    yield sentence(text, names=_kind_names(complete), good=RECALLED, last=pairs[-1])
    if others := [kind for kind in KINDS if kind not in complete]:
        limit_text = _("{name}: up to {reach} ({means[1]:share} at {last})")
        none_text = _("{name}: none ({means[0]:share} at {first}, {means[1]:share} at {last})")
        limits = say("; ").join(
            sentence(
                limit_text if limits_by_kind[kind] else none_text,
                name=say(LABELS[kind]),
                reach=limits_by_kind[kind],
                first=pairs[0],
                means=(means[kind][0], means[kind][-1]),
                last=pairs[-1],
            )
            for kind in others
        )
        text = (
            _("How many pairs the others held so: {each}.") if complete else _("How many pairs each held so: {each}.")
        )
        yield say(text, each=limits)
    yield say(
        "(Guessing one of the listed values is right once in as many times as there are pairs, a little more often since a value may be listed twice.)"
    )
    text = _(
        "One layer of attention in place of one of Mamba-2 cures it: {without:share} of {last} pairs without, "
        "{with_one:share} with it."
    )
    if "mamba2" in complete:
        text = _(
            "Mamba-2 recalled all these pairs by itself ({without:share} of {last}; with one layer of attention "
            "{with_one:share}): give more --pairs, or a smaller --state, to find where its state is full."
        )
    elif "hybrid" not in complete:
        text = _(
            "One layer of attention in place of one of Mamba-2 did not cure it here: {without:share} of {last} pairs without, "
            "{with_one:share} with it."
        )
    yield sentence(text, without=means["mamba2"][-1], with_one=means["hybrid"][-1], last=pairs[-1])


def _recall_limit(pairs: tuple[int, ...], shares: list[float]) -> int:
    """Return the largest number of pairs before the first failure; 0 if the smallest fails."""
    recalled = takewhile(lambda pair: pair[1] >= RECALLED, zip(pairs, shares, strict=True))
    return max((count for count, _share in recalled), default=0)


def _summarize_cost(results: Results) -> Iterator[str]:
    lengths = results["sizes"]["lengths"]
    first, last = lengths[0], lengths[-1]
    cost = {(row["kind"], row["n"]): row for row in results["cost"]}
    if len(lengths) > 1:
        time_ratio = {kind: cost[kind, last]["seconds"] / cost[kind, first]["seconds"] for kind in KINDS}
        memory_ratio = {kind: memory(cost[kind, last]) / memory(cost[kind, first]) for kind in KINDS}
        growing = [kind for kind in KINDS if memory_ratio[kind] > MIN_GROWTH]
        constant = [kind for kind in KINDS if kind not in growing]
        if growing:
            text = _("{name} {room:.3g} times the memory, {time:.2g} times the time")
            each = say("; ").join(
                sentence(text, name=say(LABELS[kind]), room=memory_ratio[kind], time=time_ratio[kind])
                for kind in growing
            )
            text = _("From {first:,} to {last:,} tokens of context, a new token costs more: {each}.")
            yield sentence(text, first=first, last=last, each=each)
        if constant:
            text = _("{name} {time:.2g} times")
            each = say("; ").join(sentence(text, name=say(LABELS[kind]), time=time_ratio[kind]) for kind in constant)
            text = _(
                "From {first:,} to {last:,} tokens of context, the memory of these changes by {off:share} at most, and their time to: {each}."
            )
            off = max(abs(memory_ratio[kind] - 1) for kind in constant)
            yield sentence(text, first=first, last=last, off=off, each=each)
    yield say(
        "(States and windows had read so many random vectors; the keys and values of full attention were drawn at "
        "random, since only their number matters for time and memory.)"
    )
