"""What the numbers of `qkv lab mixers` say, whichever way they came out: means over the seeds, and the paragraph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean

import numpy as np

from ..i18n import Listed, _, all_of, say
from . import Results, Row, report
from .mixer_contest import KINDS
from .report import sentence

GOOD = 0.9  # share of right answers from which on so many pairs count as recalled
GROWS = 1.5  # times as much memory, from the shortest to the longest context, that counts as growing

CALLED = {
    "attention": _("attention"),
    "window": _("windowed attention"),
    "retention": _("retention"),
    "mamba2": "Mamba-2",
    "delta": _("gated delta"),
    "hybrid": _("hybrid"),
}


def by_kind(rows: list[Row]) -> dict[str, list[Row]]:
    return {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}


def losses_of(results: Results) -> dict[str, list[float]]:
    """The last loss of every seed."""
    return {
        kind: [row["looks"][-1]["score"][0] for row in rows] for kind, rows in by_kind(results["text"]["rows"]).items()
    }


def in_time_of(results: Results) -> tuple[float, dict[str, float]]:
    """The seconds that the quickest needed for all its steps, and the mean loss of each after as many."""
    by = by_kind(results["text"]["rows"])
    room = min(fmean(row["looks"][-1]["seconds"] for row in rows) for rows in by.values())
    return room, {kind: fmean(at_time(row["looks"], room) for row in rows) for kind, rows in by.items()}


def at_time(looks: list[Row], seconds: float) -> float:
    """The loss after so many seconds, on a straight line between two looks; before the first, that of the first.

    >>> at_time([{"seconds": 1.0, "score": [3.0]}, {"seconds": 3.0, "score": [2.0]}], 2.0)
    2.5
    """
    return float(np.interp(seconds, [look["seconds"] for look in looks], [look["score"][0] for look in looks]))


def recalled(results: Results) -> dict[str, list[list[float]]]:
    """For each kind and number of pairs, the share of right answers of every seed."""
    return {
        kind: [list(shares) for shares in zip(*(row["looks"][-1]["score"] for row in rows), strict=True)]
        for kind, rows in by_kind(results["recall"]["rows"]).items()
    }


def spread(values: list[float], digits: int = 3) -> str:
    """Their mean, and how far the seeds lie from it, half of what is between the lowest and the highest.

    >>> spread([1.0, 1.1, 1.2]), spread([2.0])
    ('1.100 ±0.100', '2.000')
    """
    half = (max(values) - min(values)) / 2
    return f"{fmean(values):.{digits}f}" + (f" ±{half:.{digits}f}" if len(values) > 1 else "")


def memory(row: Row) -> int:
    return row["kept"] + row["worked"]


@report.paragraph_of
def shows(results: Results) -> Iterator[str]:
    """What was measured, whichever way it came out."""
    for says in (_says_sizes, _says_text, _says_recall, _says_cost):
        yield from says(results)


def _says_sizes(results: Results) -> Iterator[str]:
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
            names=_named(list(dict.fromkeys(edges))),
        )


def _named(kinds: list[str]) -> Listed:
    return all_of(say(CALLED[kind]) for kind in kinds)


def _joined(sentences: Iterable[str]) -> str:
    return say("; ").join(sentences)


def _says_text(results: Results) -> Iterator[str]:
    source = results["text"]["source"]
    if not results["text"]["rows"]:
        told = _("No text was learned: {name} is not here. Get it with  qkv data get {name}, or give --text FILE.")
        yield say(told, name=source)
        return
    losses, (room, in_time) = losses_of(results), in_time_of(results)
    order = sorted(KINDS, key=lambda kind: fmean(losses[kind]))
    best, last = order[0], order[-1]
    near = [kind for kind in order[1:] if min(losses[kind]) <= max(losses[best])]
    told = _(
        "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}); no other's "
        "seeds reach into those of {best}."
    )
    if len(losses[best]) == 1:
        told = _(
            "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}), by one "
            "seed each: small differences may be chance."
        )
    elif near:
        told = _(
            "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}); the seeds "
            "of {near} overlap with those of {best}, so that these can't be told apart."
        )
    ends = dict(best=say(CALLED[best]), low=spread(losses[best]), last=say(CALLED[last]), high=spread(losses[last]))
    yield say(told, text=source, near=_named(near), **ends)
    quick = min(in_time, key=lambda kind: in_time[kind])
    told = _(
        "In the same time ({seconds:duration}, what the quickest needed for all steps) {quick} leads too, with {loss:.3f}."
    )
    if quick != best:
        told = _(
            "In the same time ({seconds:duration}, what the quickest needed for all steps) another leads: {quick}, with "
            "{loss:.3f}."
        )
    yield sentence(told, seconds=room, quick=say(CALLED[quick]), loss=in_time[quick])


def _says_recall(results: Results) -> Iterator[str]:
    pairs, means = results["sizes"]["pairs"], {k: [fmean(s) for s in v] for k, v in recalled(results).items()}
    reach = {kind: _reach(pairs, shares) for kind, shares in means.items()}
    whole = [kind for kind in KINDS if reach[kind] == pairs[-1]]
    told = _("No model recalled {good:share} of the pairs told at every number up to {last}: give more --recall-steps.")
    if whole:
        told = _("Of pairs told once, {names} recalled {good:share} or more, at every number up to {last}.")
    yield sentence(told, names=_named(whole), good=GOOD, last=pairs[-1])
    if short := [kind for kind in KINDS if kind not in whole]:
        some = _("{name}: up to {reach} ({means[1]:share} at {last})")
        none = _("{name}: none ({means[0]:share} at {first}, {means[1]:share} at {last})")
        each = _joined(
            sentence(
                some if reach[kind] else none,
                name=say(CALLED[kind]),
                reach=reach[kind],
                first=pairs[0],
                means=(means[kind][0], means[kind][-1]),
                last=pairs[-1],
            )
            for kind in short
        )
        told = _("How many pairs the others held so: {each}.") if whole else _("How many pairs each held so: {each}.")
        yield say(told, each=each)
    yield say(
        "(Whoever names just any of the values told is right about once in as many times as there are pairs, a little more often since a value may be told twice.)"
    )
    told = _(
        "One layer of attention in place of one of Mamba-2 cures it: {without:share} of {last} pairs without, "
        "{with_one:share} with it."
    )
    if "mamba2" in whole:
        told = _(
            "Mamba-2 recalled all these pairs by itself ({without:share} of {last}; with one layer of attention "
            "{with_one:share}): give more --pairs, or a smaller --state, to find where its state is full."
        )
    elif "hybrid" not in whole:
        told = _(
            "One layer of attention in place of one of Mamba-2 did not cure it here: {without:share} of {last} pairs without, "
            "{with_one:share} with it."
        )
    yield sentence(told, without=means["mamba2"][-1], with_one=means["hybrid"][-1], last=pairs[-1])


def _reach(pairs: tuple[int, ...], shares: list[float]) -> int:
    """The most pairs up to which every number was recalled; beyond a failure, a lucky success doesn't count."""
    reach = 0
    for count, share in zip(pairs, shares, strict=True):
        if share < GOOD:
            break
        reach = count
    return reach


def _says_cost(results: Results) -> Iterator[str]:
    lengths = results["sizes"]["lengths"]
    first, last = lengths[0], lengths[-1]
    cost = {(row["kind"], row["n"]): row for row in results["cost"]}
    if len(lengths) > 1:
        time = {kind: cost[kind, last]["seconds"] / cost[kind, first]["seconds"] for kind in KINDS}
        room = {kind: memory(cost[kind, last]) / memory(cost[kind, first]) for kind in KINDS}
        grow, flat = ([kind for kind in KINDS if (room[kind] > GROWS) == grows] for grows in (True, False))
        if grow:
            told = _("{name} {room:.3g} times the memory, {time:.2g} times the time")
            each = _joined(sentence(told, name=say(CALLED[kind]), room=room[kind], time=time[kind]) for kind in grow)
            told = _("From {first:,} to {last:,} tokens of context, a new token costs more: {each}.")
            yield sentence(told, first=first, last=last, each=each)
        if flat:
            told = _("{name} {time:.2g} times")
            each = _joined(sentence(told, name=say(CALLED[kind]), time=time[kind]) for kind in flat)
            told = _(
                "From {first:,} to {last:,} tokens of context, the memory of these changes by {off:share} at most, and their time to: {each}."
            )
            off = max(abs(room[kind] - 1) for kind in flat)
            yield sentence(told, first=first, last=last, off=off, each=each)
    yield say(
        "(States and windows had read so many random vectors; the keys and values of full attention were drawn at "
        "random, since only their number matters for time and memory.)"
    )
