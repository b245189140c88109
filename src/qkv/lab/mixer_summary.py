"""What the numbers of `qkv lab mixers` say, whichever way they came out: means over the seeds, and the paragraph."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import numpy as np

from ..i18n import Listed, _, all_of, paragraph, say
from . import Results, Row, report
from .mixer_contest import KINDS

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


def shows(results: Results) -> str:
    """What was measured, whichever way it came out."""
    said = [_says_sizes(results)]
    if not results["text"]["rows"]:
        said.append(
            say(
                "No text was learned: {name} is not here. Get it with  qkv data get {name}, or give --text FILE.",
                name=results["text"]["source"],
            )
        )
    else:
        said += _says_text(results)
    said += [*_says_recall(results), *_says_cost(results)]
    return paragraph([*said, *report.noise(results["busy"])])


def _says_sizes(results: Results) -> str:
    counts = [[model["parameters"][task] for model in results["models"]] for task in results["sweep"]]
    off = max(max(of) / min(of) - 1 for of in counts)
    edges = [
        model["kind"]
        for model in results["models"]
        for task, better in (("text", min), ("recall", max))
        if task in results["sweep"]
        and (tried := results["sweep"][task][model["kind"]])
        and better(tried) not in tried[1:-1]
    ]
    sentences = [
        say(
            "Six models of one width and depth differ by at most {off} in their number of weights.",
            off=report.share(off),
        ),
        say(
            _("Each learned each task at the rate that was best for it there in a sweep of this run ({rates}).")
            if results["tuned"]
            else _(
                "Each learned each task at the rate that was best for it there in a recorded sweep with the default sizes "
                "({rates}; --tune sweeps again, with yours)."
            ),
            rates=all_of(f"{rate:g}" for rate in results["tried"]),
        ),
    ]
    if edges:
        sentences.append(
            say(
                "For {names} the best was the lowest or the highest that was tried: beyond it may lie a better one.",
                names=_named(list(dict.fromkeys(edges))),
            )
        )
    return paragraph(sentences)


def _named(kinds: list[str]) -> Listed:
    return all_of(say(CALLED[kind]) for kind in kinds)


def _joined(sentences: Iterable[str]) -> str:
    return say("; ").join(sentences)


def _says_text(results: Results) -> list[str]:
    losses, (room, in_time) = losses_of(results), in_time_of(results)
    order = sorted(KINDS, key=lambda kind: fmean(losses[kind]))
    best, last = order[0], order[-1]
    near = [kind for kind in order[1:] if min(losses[kind]) <= max(losses[best])]
    values = dict(
        text=results["text"]["source"],
        best=say(CALLED[best]),
        low=spread(losses[best]),
        last=say(CALLED[last]),
        high=spread(losses[last]),
        near=_named(near),
    )
    sentence = _(
        "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}); no other's "
        "seeds reach into those of {best}."
    )
    if len(losses[best]) == 1:
        sentence = _(
            "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}), by one "
            "seed each: small differences may be chance."
        )
    elif near:
        sentence = _(
            "With the same tokens of {text}, {best} came to the lowest loss ({low}), {last} to the highest ({high}); the seeds "
            "of {near} overlap with those of {best}, so that these can't be told apart."
        )
    quick = min(in_time, key=lambda kind: in_time[kind])
    said = [
        say(
            sentence,
            **values,
        ),
        say(
            _("In the same time ({seconds}, what the quickest needed for all steps) {quick} leads too, with {loss}.")
            if quick == best
            else _(
                "In the same time ({seconds}, what the quickest needed for all steps) another leads: {quick}, with {loss}."
            ),
            seconds=report.duration(room),
            quick=say(CALLED[quick]),
            loss=f"{in_time[quick]:.3f}",
        ),
    ]
    return said


def _says_recall(results: Results) -> list[str]:
    pairs, means = results["sizes"]["pairs"], {k: [fmean(s) for s in v] for k, v in recalled(results).items()}
    reach = {kind: _reach(pairs, shares) for kind, shares in means.items()}
    good = report.share(GOOD)
    whole = [kind for kind in KINDS if reach[kind] == pairs[-1]]
    said = [
        say(
            _("Of pairs told once, {names} recalled {good} or more, at every number up to {last}.")
            if whole
            else _(
                "No model recalled {good} of the pairs told at every number up to {last}: give more --recall-steps."
            ),
            names=_named(whole),
            good=good,
            last=pairs[-1],
        )
    ]
    short = [kind for kind in KINDS if kind not in whole]
    if short:
        each = (
            say(
                _("{name}: up to {reach} ({share} at {last})")
                if reach[kind]
                else _("{name}: none ({share_first} at {first}, {share} at {last})"),
                name=say(CALLED[kind]),
                reach=reach[kind],
                first=pairs[0],
                share_first=report.share(means[kind][0]),
                share=report.share(means[kind][-1]),
                last=pairs[-1],
            )
            for kind in short
        )
        sentence = (
            _("How many pairs the others held so: {each}.") if whole else _("How many pairs each held so: {each}.")
        )
        said.append(say(sentence, each=_joined(each)))
    said.append(
        say(
            "(Whoever names just any of the values told is right about once in as many times as there are pairs, a little more often since a value may be told twice.)"
        )
    )
    with_one, without = means["hybrid"][-1], means["mamba2"][-1]
    sentence = _(
        "One layer of attention in place of one of Mamba-2 cures it: {without} of {last} pairs without, {with_one} with it."
    )
    if "mamba2" in whole:
        sentence = _(
            "Mamba-2 recalled all these pairs by itself ({without} of {last}; with one layer of attention {with_one}): give "
            "more --pairs, or a smaller --state, to find where its state is full."
        )
    elif "hybrid" not in whole:
        sentence = _(
            "One layer of attention in place of one of Mamba-2 did not cure it here: {without} of {last} pairs without, "
            "{with_one} with it."
        )
    said.append(say(sentence, without=report.share(without), with_one=report.share(with_one), last=pairs[-1]))
    return said


def _reach(pairs: tuple[int, ...], shares: list[float]) -> int:
    """The most pairs up to which every number was recalled; beyond a failure, a lucky success doesn't count."""
    reach = 0
    for count, share in zip(pairs, shares, strict=True):
        if share < GOOD:
            break
        reach = count
    return reach


def _says_cost(results: Results) -> list[str]:
    lengths = results["sizes"]["lengths"]
    first, last = lengths[0], lengths[-1]
    cost = {(row["kind"], row["n"]): row for row in results["cost"]}
    said = []
    if len(lengths) > 1:
        time = {kind: cost[kind, last]["seconds"] / cost[kind, first]["seconds"] for kind in KINDS}
        room = {kind: memory(cost[kind, last]) / memory(cost[kind, first]) for kind in KINDS}
        grow = [kind for kind in KINDS if room[kind] > GROWS]
        flat = [kind for kind in KINDS if kind not in grow]
        ends = dict(first=f"{first:,}", last=f"{last:,}")
        if grow:
            each = (
                say(
                    "{name} {room} times the memory, {time} times the time",
                    name=say(CALLED[kind]),
                    room=f"{room[kind]:.3g}",
                    time=f"{time[kind]:.2g}",
                )
                for kind in grow
            )
            said.append(
                say(
                    "From {first} to {last} tokens of context, a new token costs more: {each}.",
                    **ends,
                    each=_joined(each),
                )
            )
        if flat:
            each = (say("{name} {time} times", name=say(CALLED[kind]), time=f"{time[kind]:.2g}") for kind in flat)
            said.append(
                say(
                    "From {first} to {last} tokens of context, the memory of these changes by {off} at most, and their time to: {each}.",
                    **ends,
                    off=report.share(max(abs(room[kind] - 1) for kind in flat)),
                    each=_joined(each),
                )
            )
    said.append(
        say(
            "(States and windows had read so many random vectors; the keys and values of full attention were drawn at "
            "random, since only their number matters for time and memory.)"
        )
    )
    return said
