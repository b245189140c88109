"""Print and draw a mixer's steps: the table A and its factors, the state after each token, the chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from ..i18n import _, say
from .derivation import TextStep, TextTable, as_text, indented, largest, print_steps, print_sum, weighted_sum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..mixers.stepwise import Array, MixerSteps
    from ..tracing.views.traces import Trace

NAMES = {
    "linear": _("Linear attention with decay"),
    "retention": _("Retention"),
    "mamba2": "Mamba-2",
    "delta": _("The gated delta rule"),
}
FORMULAS = {
    "linear": "y = (L ∘ Q·Kᵀ)·V",
    "retention": "y = (L ∘ Q·Kᵀ)·V",
    "mamba2": "y = (L ∘ C·Bᵀ)·(Δ·x)",
    "delta": "y = (L ∘ Q·Kᵀ)·(I + tril(β·K·Kᵀ ∘ L, −1))⁻¹·β·V",
}
WRITES = {
    "linear": _("After {word}: what was there fades to γ = {decay}, then k·vᵀ is added. It reads y = Sᵀ·q."),
    "retention": _("After {word}: what was there fades to γ = {decay}, then k·vᵀ is added. It reads y = Sᵀ·q/√d."),
    "mamba2": _(
        "After {word}: what was there fades to γ = e^(−Δ) = {decay}, then B·(Δ·x)ᵀ is added. It reads y = Sᵀ·C."
    ),
    "delta": _(
        "After {word}: what was there fades to γ = {decay}; what key k holds moves towards v by the share β = {write}, so "
        "that it is overwritten, not added to. It reads y = Sᵀ·q/√d."
    ),
}
STATES = 8  # tokens whose state is printed


def show(steps: MixerSteps, lang: str | None = None, digits: int = 3) -> str:
    """Return the parallel, recurrent and chunkwise forms as text; see mixers/stepwise.py."""
    d, p = steps.states.shape[1:]
    introduction = [
        say(
            "{name}, step by step: {formula}, no softmax",
            lang,
            name=say(NAMES[steps.kind], lang),
            formula=FORMULAS[steps.kind],
        ),
        say(
            "{n} tokens. All that is kept of a text is a state S of {d}×{p} numbers, whatever its length.",
            lang,
            n=len(steps.names),
            d=d,
            p=p,
        ),
    ]
    parts = [*_parallel(steps, lang), _recurrent(steps, lang), _chunkwise(steps, lang)]
    last = say("The three forms differ by at most {difference}.", lang, difference=f"{steps.difference:.1e}")
    return print_steps(introduction, [*parts, TextStep(last)], digits)


def _parallel(steps: MixerSteps, lang: str | None) -> list[TextStep]:
    """Return steps 0 to 4: the whole text at once."""
    q, k, v, v_term = ("C", "B", "Δ·x", "(Δ·x)") if steps.kind == "mamba2" else ("Q", "K", "V", "V")
    rows, columns = steps.names, {"Δ": steps.step, "γ": steps.decay, "β": steps.write}
    per_token = {name: values for name, values in columns.items() if values is not None}
    inputs = [TextTable(t, rows, title=f"{name}  {t.shape}") for name, t in ((q, steps.q), (k, steps.k), (v, steps.v))]
    token_table = np.stack([*per_token.values()], 1)
    inputs.append(TextTable(token_table, rows, [*per_token], title=say("of each token", lang)))
    product = f"L ∘ {q}·{k}ᵀ"

    def pairs(title: str, sentence: str, table: Array) -> TextStep:
        return TextStep(f"{title}  {table.shape}", sentence, TextTable(table, rows, rows))

    parts = [
        TextStep(f"0  {q}, {k}, {v}", *inputs),
        pairs(
            f"1  {q}·{k}ᵀ" + ("/√d" if steps.scale != 1 else ""),
            say("How well each query matches each key, as in attention.", lang),
            steps.scores,
        ),
        pairs(
            "2  L",
            say(
                "How much of what a token wrote is left when a later one reads: the product of the γ between them. Later "
                "tokens are not there yet: 0.",
                lang,
            ),
            steps.left,
        ),
    ]
    if steps.corrected is not None:
        sentence = say("What each write takes out of those before it, whose keys are like its own.", lang)
        parts.append(pairs("2b (I + tril(β·K·Kᵀ ∘ L, −1))⁻¹·β", sentence, steps.corrected))
        product = f"({product})·(2b)"
    sentence = say(
        "What attention's weights are, but signed, and rows don't sum to 1. Largest: {query} takes {key} times {value}.",
        lang,
        **largest(steps.weights, np.abs(steps.weights), rows, rows),
    )
    parts.append(pairs(f"3  A = {product}", sentence, steps.weights))
    sentence = say("The parallel form: the whole text at once.", lang)
    parts.append(TextStep(f"4  y = A·{v_term}  {steps.output.shape}", sentence, TextTable(steps.output, rows)))
    return parts


def _recurrent(steps: MixerSteps, lang: str | None) -> TextStep:
    """Return step 5: one token after the other."""
    n, (d, p) = len(steps.names), steps.states.shape[1:]
    body: list[str | TextTable] = [say("The recurrent form: a new token costs the same after any text.", lang)]
    for t in range(min(n, STATES)):
        write = None if steps.write is None else float(steps.write[t])
        body.append(say(WRITES[steps.kind], lang, word=steps.names[t], decay=float(steps.decay[t]), write=write))
        body.append(TextTable(steps.states[t], [f"S{i}" for i in range(d)]))
        body.append(TextTable(steps.stepped[t : t + 1], ["y"], most=p))
    if n > STATES:
        body.append(say("and so on for {n} more tokens.", lang, n=n - STATES))
    return TextStep("5  " + say("the same, one token after the other", lang), *body)


def _chunkwise(steps: MixerSteps, lang: str | None) -> TextStep:
    """Return step 6: the table within chunks, the state between them."""
    body: list[str | TextTable] = [
        say(
            "The chunkwise form, which training uses: the table inside each chunk, the state between them. y is the sum.",
            lang,
        )
    ]
    for chunk in steps.chunks[:STATES]:
        words = steps.names[chunk.begin : chunk.end]
        body.append(say("{first} … {last}", lang, first=words[0], last=words[-1]))
        for name, part in (
            (_("inside the chunk"), chunk.inside),
            (_("from the state before it"), chunk.before),
            (_("together: y"), chunk.output),
        ):
            body.append(TextTable(part, words, title=say(name, lang)))
    return TextStep("6  " + say("the same in chunks", lang), *body)


def word(steps: MixerSteps, row: int, lang: str | None = None, digits: int = 3) -> str:
    """Return one token's output, term by term: weight × V of every token up to it."""
    end = row + 1
    return print_sum(
        steps.names[row], steps.names[:end], steps.weights[row][:end], steps.terms(row)[:end], lang, digits
    )


@as_text
def row(
    trace: Trace, layer: int, head: int, query: str, by: str = "characters", *, part: str | None = None, batch: int = 0
) -> Iterator[str]:
    """Return one token's weights on the tokens up to it, a line per token, and the sum of w·v."""
    from ..mixers.calls import Mixing
    from ..tracing.views.word_map import locate_word

    tokens = trace.tokens(part, batch)
    position, names = tokens.find(query), tokens.numbered
    _, (_name, first, end) = locate_word(tokens, query, by)
    mixer_head = trace.head(layer, head, part, batch)
    call, cols = mixer_head.call, range(position + 1)
    assert isinstance(call, Mixing)
    weights = mixer_head.weights([position], cols)[0].double().numpy()
    scores = (call.q[0, 0, position] @ call.k[0, 0, : position + 1].T * call.scale).double().numpy()
    log_decay = call.decay[0, 0].double().cumsum(0)
    decays = (log_decay[position] - log_decay[: position + 1]).exp().numpy()
    if call.resets is not None:
        decays = decays * mixer_head.allowed([position], cols)[0].numpy()
    order = np.argsort(-np.abs(weights))[:12]
    columns = {"q·k" if call.scale == 1 else f"q·k×{call.scale:.3g}": scores, "L": decays}
    if call.write is not None:
        columns["β"] = call.write[0, 0, : position + 1].double().numpy()
    columns[say("weight")] = weights
    table = np.stack(list(columns.values()), 1)[order]
    yield say(
        "What {word} takes in {layer}.{head}, the largest first (no softmax: below 0 is taken away):",
        word=query if end - first == 1 else names[position],
        layer=layer,
        head=head,
    )
    if call.write is not None:
        yield say("(the delta rule: a weight is q·k × L × β, less what later writes took out of that key)")
    yield from indented(table, [names[i] for i in order], list(columns))
    if (rest := position + 1 - len(order)) > 0:
        size = float(np.abs(np.delete(weights, order)).max())
        yield "  " + say("and {n} more, at most {size} each", n=rest, size=size)
    output = weights @ call.v[0, 0, : position + 1].double().numpy()
    yield from weighted_sum(output[None], names[position], trace.difference(layer, head, part=part, batch=batch))


def figure(steps: MixerSteps, *, lang: str | None = None, path: str | Path | IO[bytes] | None = None) -> Figure:
    """Return a figure of Q·Kᵀ, L and A, and below them the state after each of the last four tokens."""
    from .figure_canvas import SIGNED, blank, label, paint, save, write
    from .plots import MAX_NUMBERED

    names = list(steps.names)
    n = len(names)
    last = list(range(max(0, n - 4), n))  # of the states
    side = min(max(0.55 * n + 0.9, 2.8), 8)
    drawing = blank((3 * side + 1, side + 3.2), names, lang)
    grid = drawing.add_gridspec(2, 12, height_ratios=[side, 2.6])
    q, k = ("C", "B") if steps.kind == "mamba2" else ("q", "k")
    tables = (
        (f"1  {q}·{k}ᵀ", steps.scores),
        (say("2  L: what is left", lang), steps.left),
        (say("3  A: signed, rows don't sum to 1", lang), steps.weights),
    )
    causal = np.tril(np.ones((n, n), dtype=bool))
    for column, (title, table) in enumerate(tables):
        axes = drawing.add_subplot(grid[0, 4 * column : 4 * column + 4])
        top = float(np.abs(table).max()) or 1.0
        image = paint(axes, table, causal if column else None, colours=SIGNED, bottom=-top, top=top)
        label(axes, names if column == 0 else None, names)
        if n <= MAX_NUMBERED:
            write(axes, np.where(causal | (column == 0), table, np.nan), image)
        axes.set_title(title, fontsize=10, loc="left")
    top = float(np.abs(steps.states).max()) or 1.0
    for column, t in enumerate(last):
        axes = drawing.add_subplot(grid[1, 3 * column : 3 * column + 3])
        paint(axes, steps.states[t], None, colours=SIGNED, bottom=-top, top=top)
        label(axes, None, None)
        axes.set_title(say("S after {word}", lang, word=names[t]), fontsize=10, loc="left")
    return save(drawing, path)
