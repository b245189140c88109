"""The five steps of an attention as text: a sentence on what happens, the shape, the matrix with its rows and columns named.

`Steps.show` and `Steps.word` come here; qkv.attention.oracle is the oracle and only computes. `row` is the same of one query
of a trace, a line per key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..i18n import _, all_of, say
from ..terminal import text_grid

if TYPE_CHECKING:
    from ..attention.oracle import Array, Steps
    from ..tracing.views.traces import Trace


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
        lines.extend(_indent(f"{title}\n" + text_grid.numbers(values, labels, digits=digits, most=most)))

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
        lines.extend(_indent(text_grid.numbers(part, rows, columns if named else None, digits=digits)))

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
        lines += _indent(text_grid.numbers(merged[item] if steps.batched else merged, rows, digits=digits))
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
    return "\n".join([title, *_indent(text_grid.numbers(np.hstack([shares, table]), labels, columns, digits, most=16))])


def row(
    trace: Trace, layer: int, head: int, query: str, by: str = "characters", *, part: str | None = None, batch: int = 0
) -> str:
    """The five steps of one query, a line per key: q·k, scaled, masked, softmax; then the sum of w·v.

    q·k is between tokens: of a character or word of several, the last one is shown, which has read all of it.
    """
    from ..attention.oracle import Steps
    from ..tracing.views.word_map import stand

    asking, asked = trace.tokens(part, batch), trace.tokens(part, batch, keys=True).numbered
    _, (name, first, end) = stand(asking, query, by)
    place = asking.find(query)
    word = asking.numbered[place]
    if trace.bare:
        return _weights(trace, layer, head, word, place, part, batch)
    steps = trace.steps(layer, head, place, part=part, batch=batch)
    assert isinstance(steps, Steps)  # a mixer's row is mixer_derivation's
    columns = [steps.scores[0], steps.scaled[0], steps.masked[0], steps.weights[0]]
    order = np.argsort(-steps.weights[0])[:12]
    table = np.stack(columns, 1)[order]
    titles = ["q·k", "q·k/√d" if np.isclose(steps.scale, steps.q.shape[-1] ** -0.5) else f"q·k×{steps.scale:.3g}"]
    titles += [say("masked"), say("weight")]
    lines = (
        []
        if end - first == 1
        else [
            say(
                "{word} is {n} tokens, which the map joins; q·k is between single tokens, so here is the last of "
                "them, {last}:",
                word=name,
                n=end - first,
                last=word,
            ),
            "",
        ]
    )
    lines += _turned(trace, layer, head, word, place, part, batch)
    lines.append(
        say(
            "The row of {word} in {layer}.{head}, step by step (d = {d}), strongest keys first:",
            word=word,
            layer=layer,
            head=head,
            d=steps.q.shape[-1],
        )
    )
    lines += ["  " + line for line in text_grid.numbers(table, [asked[i] for i in order], titles, most=16).split("\n")]
    lines += _others(steps.weights[0], ~np.isneginf(steps.masked[0]), order)
    lines.append(say("Σ weight × V:"))
    lines += ["  " + line for line in text_grid.numbers(steps.output, [word], most=10).split("\n")]
    lines.append(
        say(
            "The same to {difference} as the model's own kernel gives from these q, k and v.",
            difference=f"{trace.difference(layer, head, place, part=part, batch=batch):.0e}",
        )
    )
    return "\n".join(lines)


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


def _weights(trace: Trace, layer: int, head: int, word: str, place: int, part: str | None, batch: int) -> str:
    """One query's weights, where there is nothing else to tell how they came about."""
    asked, shares = trace.tokens(part, batch, keys=True).numbered, trace.row(layer, head, place, part=part, batch=batch)
    order = np.argsort(-shares)[:12]
    lines = [
        say(
            "The row of {word} in {layer}.{head}, strongest keys first; q, k and v, and with them the steps, "
            "aren't there (--eager):",
            word=word,
            layer=layer,
            head=head,
        )
    ]
    table = text_grid.numbers(shares[order][:, None], [asked[i] for i in order], [say("weight")], most=16)
    lines += ["  " + line for line in table.split("\n")]
    lines += _others(shares, np.ones(len(shares), bool), order)
    return "\n".join(lines)


def _others(weights: np.ndarray, visible: np.ndarray, listed: np.ndarray) -> list[str]:
    """A line on the keys that aren't listed; keys that the mask hides have the weight 0 and are named as hidden."""
    others = np.setdiff1d(np.arange(len(weights)), listed)
    hidden = int((~visible[others]).sum())
    if not len(others):
        return []
    if hidden == len(others):
        return ["  " + say("and {n} more keys, hidden by the mask: 0", n=hidden)]
    key = (
        _("and {n} more keys, which share {sum}; {hidden} of them are hidden by the mask")
        if hidden
        else _("and {n} more keys, which share {sum}")
    )
    return ["  " + say(key, n=len(others), sum=float(weights[others].sum()), hidden=hidden)]


def _turned(trace: Trace, layer: int, head: int, word: str, place: int, part: str | None, batch: int) -> list[str]:
    """How q was turned by its position, on its first pairs and its last."""
    pairs = trace.rotation(layer, head, place, part=part, batch=batch)
    if pairs is None:
        return []
    shown = [*range(min(3, len(pairs))), *([len(pairs) - 1] if len(pairs) > 3 else [])]
    half = len(pairs)
    labels = [f"q{i}, q{i + half}" for i in shown]
    titles = [say("angle"), say("before"), "", say("after"), ""]
    table = text_grid.numbers(pairs[shown], labels, titles).split("\n")
    return [
        say(
            "{word} stands at position {place}: rotary positions turned its q, {pairs} pairs of numbers, each at "
            "its own speed:",
            word=word,
            place=place,
            pairs=half,
        ),
        *("  " + line for line in table),
        "",
    ]


def _indent(text: str) -> list[str]:
    return ["     " + line for line in text.split("\n")]
