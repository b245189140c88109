"""The five steps of an attention as text: a sentence on what happens, the shape, the matrix with its rows and columns named.

`Steps.show` and `Steps.word` come here; qkv.attention.steps is the oracle and only computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import grid
from ..words import _, all_of, say

if TYPE_CHECKING:
    from ..attention.steps import Array, Steps


def show(steps: Steps, *, lang: str | None = None, head: int = 0, item: int = 0, digits: int = 3) -> str:
    """The five steps as text: a sentence on what happens, the shape, the matrix with its rows and columns named."""
    n, m, d = *steps.scores.shape[-2:], steps.q.shape[-1]
    rows, columns = steps.names(0, n), steps.names(1, m)
    at = steps.index(item, head)
    scores, scaled, masked, weights = (getattr(steps, s)[at] for s in ("scores", "scaled", "masked", "weights"))
    hidden = np.isneginf(masked)
    lines = [
        say("softmax(QKᵀ/√d)V, step by step", lang),
        say("{n} queries look at {m} keys; each vector of q and k has {d} numbers.", lang, n=n, m=m, d=d),
    ]
    if steps.batched:
        lines.append(
            say(
                "Shown: item {item} of a batch of {items}, counted from 0.",
                lang,
                item=item,
                items=steps.scores.shape[0],
            )
        )
    if steps.headed:
        lines.append(
            say("Shown: head {head} of {heads}, counted from 0.", lang, head=head, heads=steps.scores.shape[-3])
        )

    def table(title: str, values: Array, labels: Sequence[str] | None, most: int = 10) -> None:
        labels = [""] * len(values) if labels is None else labels
        lines.extend(_indent(f"{title}\n" + grid.numbers(values, labels, digits=digits, most=most)))

    lines += ["", "0  Q, K, V", *("   " + sentence for sentence in _origin(steps, lang))]
    for name, source, labels in (("x", steps.x, rows), ("memory", steps.memory, columns)):
        if source is not None:
            table(f"{name}  {source.shape}", source[item] if steps.batched else source, labels)
    for name in ("w_q", "w_k", "w_v"):
        if (matrix := getattr(steps, name)) is not None:
            title, own = f"{name.capitalize()}  {matrix.shape}", slice(None)
            if steps.headed:
                wide = matrix.shape[1] // steps.scores.shape[-3]
                own = slice(head * wide, head * wide + wide)
                title += "  " + say(
                    "columns {low} to {high}, those of head {head}",
                    lang,
                    low=own.start,
                    high=own.stop - 1,
                    head=head,
                )
            table(title, matrix[:, own], None)
    at_kv = steps.index_kv(item, head)
    table(f"Q  {steps.q.shape}", steps.q[at], rows)
    table(f"K  {steps.k.shape}", steps.k[at_kv], columns)
    table(f"V  {steps.v.shape}", steps.v[at_kv], columns)

    def step(title: str, whole: Array, sentences: list[str], part: Array, named: bool = True) -> None:
        lines.extend(["", f"{title}  {whole.shape}", *("   " + sentence for sentence in sentences)])
        lines.extend(_indent(grid.numbers(part, rows, columns if named else None, digits=digits)))

    if scores.size:
        best = np.unravel_index(scores.argmax(), scores.shape)
        match = dict(query=rows[best[0]], key=columns[best[1]], value=float(scores[best]))
        step(
            "1  scores = Q·Kᵀ",
            steps.scores,
            [
                say(
                    "Every query meets every key: their dot product says how well they match. Best match: {query} · {key} "
                    "= {value}.",
                    lang,
                    **match,
                )
            ],
            scores,
        )
        step(*_scaling(steps, lang), scaled)
        key = (
            _("{hidden} of {total} pairs may not attend: they become −∞, so that their weight will be exactly 0.")
            if hidden.any()
            else _("No mask: every query may look at every key.")
        )
        step("3  masked", steps.masked, [say(key, lang, hidden=int(hidden.sum()), total=hidden.size)], masked)
        most = np.unravel_index(weights.argmax(), weights.shape)
        share = dict(query=rows[most[0]], key=columns[most[1]], value=float(weights[most]))
        told = [
            say(
                "softmax turns each row into shares: e to the power of each number, divided by the row's sum. "
                "Largest: {query} gives {key} {value}.",
                lang,
                **share,
            )
        ]
        if steps.sinks is not None:
            told.append(
                say(
                    "A sink with score {sink} joins each row's sum and gives nothing, so the shown weights sum to less "
                    "than 1.",
                    lang,
                    sink=float(steps.sinks[head]),
                )
            )
        step("4  weights = softmax(masked)", steps.weights, told, weights)
        sums = weights.sum(-1)
        low, high = f"{sums.min():.4g}", f"{sums.max():.4g}"
        same = say("Every row sums to {sum}.", lang, sum=low)
        lines.append("   " + (same if low == high else say("Row sums: {low} to {high}.", lang, low=low, high=high)))
        if (dead := hidden.all(-1)).any():
            lines.append(
                "   "
                + say(
                    "{rows} may attend to nothing: the whole row is 0, not NaN.",
                    lang,
                    rows=", ".join(rows[i] for i in np.flatnonzero(dead)),
                )
            )
    step(
        "5  output = weights·V",
        steps.heads,
        [say("Each output row is the average of the rows of V, weighted by that row's shares.", lang)],
        steps.heads[at],
        named=False,
    )
    if steps.headed:
        merged = steps.merged
        lines.append(
            "   "
            + say(
                "The {heads} heads' outputs are put side by side: {shape}.",
                lang,
                heads=steps.scores.shape[-3],
                shape=merged.shape,
            )
        )
        lines += _indent(grid.numbers(merged[item] if steps.batched else merged, rows, digits=digits))
    if steps.w_o is not None:
        lines.append("   " + say("Times W_o, which lets what the heads found mix.", lang))
        table(f"W_o  {steps.w_o.shape}", steps.w_o, None)
        table(f"output  {steps.output.shape}", steps.output[item] if steps.batched else steps.output, rows, most=12)
    return "\n".join(lines)


def word(steps: Steps, row: int, *, lang: str | None = None, head: int = 0, item: int = 0, digits: int = 3) -> str:
    """One query's output written out as a sum: each key's weight, times its row of V, and the total."""
    weights, terms = steps.weights[steps.index(item, head)][row], steps.terms(row, head=head, item=item)
    labels = [*steps.names(1, len(terms)), say("sum", lang)]
    table = np.vstack([terms, terms.sum(0)])
    shares = np.append(weights, weights.sum())[:, None]
    columns = [say("weight", lang), *(f"×V{j}" for j in range(terms.shape[1]))]
    title = say("The row of {word}, term by term: Σ weight × V", lang, word=steps.names(0, steps.scores.shape[-2])[row])
    return "\n".join([title, *_indent(grid.numbers(np.hstack([shares, table]), labels, columns, digits, most=16))])


def _origin(steps: Steps, lang: str | None) -> list[str]:
    """Where q, k and v come from, in a sentence or two."""
    if steps.x is None:
        return [say("Q, K and V as they were given.", lang)]
    left_out = [name for name in ("w_q", "w_k", "w_v") if getattr(steps, name) is None]
    told = (
        []
        if len(left_out) == 3
        else [
            say(
                _(
                    "Two texts: q = x·W_q asks from the one; k = memory·W_k answers and v = memory·W_v is passed on from the other."
                )
                if steps.memory is not None
                else _(
                    "Three views of the same words: q = x·W_q asks, k = x·W_k answers, v = x·W_v is what gets passed on."
                ),
                lang,
            )
        ]
    )
    if left_out:
        of = "x" if steps.memory is None else "memory"
        equal = all_of(f"{name[2]} = {'x' if name == 'w_q' else of}" for name in left_out)
        told.append(
            say(
                "Left out: {names}; so {equal}.",
                lang,
                names=all_of(name.capitalize() for name in left_out),
                equal=equal,
            )
        )
    return told


def _scaling(steps: Steps, lang: str | None) -> tuple[str, Array, list[str]]:
    """Step 2 as it was done: the title with its formula, the scores and a sentence for each part."""
    d = steps.q.shape[-1]
    usual = np.isclose(steps.scale, d**-0.5)
    key = (
        _(
            "Times {scale} = 1/√{d}: a sum of {d} products spreads like √{d}; dividing that out keeps the softmax "
            "from growing sharper as vectors grow wider."
        )
        if usual
        else _("No scaling (scale = 1): the scores go on as they are.")
        if steps.scale == 1
        else _("Times {scale}, the scale that was asked for.")
    )
    formula = "scores/√d" if usual else f"scores × {steps.scale:.4g}"
    told = [say(key, lang, scale=steps.scale, d=d)]
    if steps.softcap is not None:
        formula = f"{steps.softcap:.4g}·tanh(({formula})/{steps.softcap:.4g})"
        told.append(
            say(
                "Then {softcap}·tanh(score/{softcap}), which keeps every score between −{softcap} and {softcap}.",
                lang,
                softcap=steps.softcap,
            )
        )
    if steps.bias is not None:
        formula += " + bias"
        told.append(say("Then the bias is added; −∞ in it hides that pair, as a mask does.", lang))
    return f"2  scaled = {formula}", steps.scaled, told


def _indent(text: str) -> list[str]:
    return ["     " + line for line in text.split("\n")]
