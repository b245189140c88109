"""Print the five steps of attention: for each a sentence, the shape and the labelled matrix.

`show` and `word` implement `Steps.show` and `Steps.word` of qkv.attention.oracle; `row` prints one query of a trace.
`print_steps` and the functions above `show` also print a mixer's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from ..i18n import _, all_of, say
from ..terminal import text_grid

if TYPE_CHECKING:
    from ..attention.oracle import Array, Steps
    from ..tracing.views.traces import Trace

P = ParamSpec("P")


@dataclass(frozen=True)
class TextTable:
    """A labelled matrix with a title."""

    values: ArrayLike
    rows: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    title: str = ""
    most: int = 12

    def lines(self, digits: int) -> list[str]:
        """Return the title, if there is one, and a line per row."""
        table = text_grid.numbers(self.values, self.rows, self.columns, digits, self.most).split("\n")
        return [self.title, *table] if self.title else table


class TextStep:
    """A title with sentences and tables."""

    def __init__(self, title: str, *body: str | TextTable) -> None:
        self.title, self.body = title, body


def print_steps(introduction: Sequence[str], steps: Iterable[TextStep], digits: int) -> str:
    """Return the introduction and the steps as text, with `digits` decimals.

    >>> print(print_steps(["Two numbers"], [TextStep("1  their sum", "It is 3.", TextTable([[1, 2]], ["a"], title="x"))], 0))
    Two numbers
    <BLANKLINE>
    1  their sum
       It is 3.
         x
         a  1  2
    """
    lines = list(introduction)
    for step in steps:
        lines += ["", step.title]
        for part in step.body:
            lines += ["   " + part] if isinstance(part, str) else ["     " + line for line in part.lines(digits)]
    return "\n".join(lines)


def print_sum(
    word: str, keys: Sequence[str], weights: np.ndarray, terms: np.ndarray, lang: str | None, digits: int
) -> str:
    """Return one query's output as a sum: each key's weight times its row of V, and the total."""
    table = np.column_stack([weights, terms])
    columns = [say("weight", lang), *(f"×V{j}" for j in range(terms.shape[1]))]
    title = say("The row of {word}, term by term: Σ weight × V", lang, word=word)
    whole = TextTable(np.vstack([table, table.sum(0)]), [*keys, say("sum", lang)], columns, most=16)
    return "\n".join([title, *("     " + line for line in whole.lines(digits))])


def as_text(lines: Callable[P, Iterable[str]]) -> Callable[P, str]:
    """Decorate a generator of lines to return one text."""

    @wraps(lines)
    def joined(*args: P.args, **options: P.kwargs) -> str:
        return "\n".join(lines(*args, **options))

    return joined


def indented(values: ArrayLike, rows: Sequence[str], columns: Sequence[str] | None = None, most: int = 16) -> list[str]:
    """Return the lines of a table, indented by two spaces."""
    return ["  " + line for line in TextTable(values, rows, columns, most=most).lines(3)]


def weighted_sum(output: np.ndarray, word: str, difference: float) -> list[str]:
    """Return the last lines of a row: Σ weight × V and its difference from the model's own kernel."""
    message = _("The same to {difference} as the model's own kernel gives from these q, k and v.")
    return [say("Σ weight × V:"), *indented(output, [word], most=10), say(message, difference=f"{difference:.0e}")]


def largest(table: np.ndarray, by: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> dict[str, str | float]:
    """Return the query, key and value where `by` is largest, as fields of a sentence."""
    row, column = divmod(int(by.argmax()), by.shape[1])
    return {"query": rows[row], "key": columns[column], "value": float(table[row, column])}


def show(steps: Steps, *, lang: str | None = None, head: int = 0, item: int = 0, digits: int = 3) -> str:
    """Return the five steps as text: for each a sentence, the shape and the labelled matrix."""
    d = _Derivation(steps, lang, head, item)
    middle = [d.scores(), d.scaled(), d.masked(), d.weights()] if steps.scores.size else []
    return print_steps([*d.introduction()], [d.inputs(), *middle, d.output()], digits)


class _Derivation:
    """The printable steps of one head of one batch item."""

    def __init__(self, steps: Steps, lang: str | None, head: int, item: int) -> None:
        self.steps, self.lang, self.head, self.item = steps, lang, head, item
        self.at = steps.index(item, head)
        self.queries, self.keys = (steps.names(axis, steps.scores.shape[axis - 2]) for axis in (0, 1))
        self.hidden = np.isneginf(steps.masked[self.at])

    def introduction(self) -> Iterator[str]:
        steps, lang = self.steps, self.lang
        n, m, d = *steps.scores.shape[-2:], steps.q.shape[-1]
        yield say("softmax(QKᵀ/√d)V, step by step", lang)
        yield say("{n} queries look at {m} keys; each vector of q and k has {d} numbers.", lang, n=n, m=m, d=d)
        if steps.batched:
            items = steps.scores.shape[0]
            yield say("Shown: item {item} of a batch of {items}, counted from 0.", lang, item=self.item, items=items)
        if steps.headed:
            heads = steps.scores.shape[-3]
            yield say("Shown: head {head} of {heads}, counted from 0.", lang, head=self.head, heads=heads)

    def inputs(self) -> TextStep:
        steps, at_kv = self.steps, self.steps.index_kv(self.item, self.head)
        tables = [
            self._table(name, table, self._of_item(table), labels)
            for name, table, labels in (("x", steps.x, self.queries), ("memory", steps.memory, self.keys))
            if table is not None
        ]
        matrices = (("W_q", steps.w_q), ("W_k", steps.w_k), ("W_v", steps.w_v))
        tables += [self._projection(name, matrix) for name, matrix in matrices if matrix is not None]
        tables.append(self._table("Q", steps.q, steps.q[self.at], self.queries))
        tables += [self._table(name, t, t[at_kv], self.keys) for name, t in (("K", steps.k), ("V", steps.v))]
        return TextStep("0  Q, K, V", *_origin(steps, self.lang), *tables)

    def scores(self) -> TextStep:
        sentence = say(
            "Every query meets every key: their dot product says how well they match. Best match: {query} · {key} = {value}.",
            self.lang,
            **self._largest(self.steps.scores),
        )
        return self._pairs("1  scores = Q·Kᵀ", self.steps.scores, [sentence])

    def scaled(self) -> TextStep:
        steps, lang, d = self.steps, self.lang, self.steps.q.shape[-1]
        usual = np.isclose(steps.scale, d**-0.5)
        message = (
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
        sentences = [say(message, lang, scale=steps.scale, d=d)]
        if steps.softcap is not None:
            formula = f"{steps.softcap:.4g}·tanh(({formula})/{steps.softcap:.4g})"
            capped = _(
                "Then {softcap}·tanh(score/{softcap}), which keeps every score between −{softcap} and {softcap}."
            )
            sentences.append(say(capped, lang, softcap=steps.softcap))
        if steps.bias is not None:
            formula += " + bias"
            sentences.append(say("Then the bias is added; −∞ in it hides that pair, as a mask does.", lang))
        return self._pairs(f"2  scaled = {formula}", steps.scaled, sentences)

    def masked(self) -> TextStep:
        hidden = int(self.hidden.sum())
        message = (
            _("{hidden} of {total} pairs may not attend: they become −∞, so that their weight will be exactly 0.")
            if hidden
            else _("No mask: every query may look at every key.")
        )
        sentence = say(message, self.lang, hidden=hidden, total=self.hidden.size)
        return self._pairs("3  masked", self.steps.masked, [sentence])

    def weights(self) -> TextStep:
        steps, lang = self.steps, self.lang
        sentences = [
            say(
                "softmax turns each row into shares: e to the power of each number, divided by the row's sum. "
                "Largest: {query} gives {key} {value}.",
                lang,
                **self._largest(steps.weights),
            )
        ]
        if steps.sinks is not None:
            sink = _(
                "A sink with score {sink} joins each row's sum and gives nothing, so the shown weights sum to less than 1."
            )
            sentences.append(say(sink, lang, sink=float(steps.sinks[self.head])))
        sums = steps.weights[self.at].sum(-1)
        low, high = f"{sums.min():.4g}", f"{sums.max():.4g}"
        row_sum = say("Every row sums to {sum}.", lang, sum=low)
        remarks = [row_sum if low == high else say("Row sums: {low} to {high}.", lang, low=low, high=high)]
        if (all_hidden := self.hidden.all(-1)).any():
            rows = ", ".join(self.queries[i] for i in np.flatnonzero(all_hidden))
            remarks.append(say("{rows} may attend to nothing: the whole row is 0, not NaN.", lang, rows=rows))
        return self._pairs("4  weights = softmax(masked)", steps.weights, sentences, *remarks)

    def output(self) -> TextStep:
        steps, lang = self.steps, self.lang
        body: list[str | TextTable] = [
            say("Each output row is the average of the rows of V, weighted by that row's shares.", lang),
            TextTable(steps.heads[self.at], self.queries),
        ]
        if steps.headed:
            merged = steps.merged
            message = _("The {heads} heads' outputs are put side by side: {shape}.")
            body.append(say(message, lang, heads=steps.scores.shape[-3], shape=merged.shape))
            body.append(TextTable(self._of_item(merged), self.queries))
        if steps.w_o is not None:
            body.append(say("Times W_o, which lets what the heads found mix.", lang))
            body.append(self._table("W_o", steps.w_o, steps.w_o))
            body.append(self._table("output", steps.output, self._of_item(steps.output), self.queries, 12))
        return TextStep(f"5  output = weights·V  {steps.heads.shape}", *body)

    def _of_item(self, table: Array) -> Array:
        return table[self.item] if self.steps.batched else table

    def _largest(self, table: Array) -> dict[str, str | float]:
        return largest(table[self.at], table[self.at], self.queries, self.keys)

    def _table(
        self, name: str, whole: Array, part: Array, rows: Sequence[str] | None = None, most: int = 10
    ) -> TextTable:
        return TextTable(part, [""] * len(part) if rows is None else rows, title=f"{name}  {whole.shape}", most=most)

    def _projection(self, name: str, matrix: Array) -> TextTable:
        """Return the columns of a matrix that project to this head's q, k or v."""
        if not self.steps.headed:
            return self._table(name, matrix, matrix)
        width = matrix.shape[1] // self.steps.scores.shape[-3]
        low, high = self.head * width, (self.head + 1) * width
        message = _("columns {low} to {high}, those of head {head}")
        title = f"{name}  {matrix.shape}  {say(message, self.lang, low=low, high=high - 1, head=self.head)}"
        return TextTable(matrix[:, low:high], [""] * len(matrix), title=title, most=10)

    def _pairs(self, title: str, whole: Array, sentences: Sequence[str], *after: str) -> TextStep:
        """Return a step whose table has a row per query and a column per key."""
        table = TextTable(whole[self.at], self.queries, self.keys)
        return TextStep(f"{title}  {whole.shape}", *sentences, table, *after)


def word(steps: Steps, row: int, *, lang: str | None = None, head: int = 0, item: int = 0, digits: int = 3) -> str:
    """Return one query's output as a sum: each key's weight times its row of V, and the total."""
    weights, terms = steps.weights[steps.index(item, head)][row], steps.terms(row, head=head, item=item)
    name = steps.names(0, steps.scores.shape[-2])[row]
    return print_sum(name, steps.names(1, len(terms)), weights, terms, lang, digits)


@as_text
def row(
    trace: Trace, layer: int, head: int, query: str, by: str = "characters", *, part: str | None = None, batch: int = 0
) -> Iterator[str]:
    """Return the steps of one query, a line per key: q·k, scaled, masked, softmax; then the sum of w·v.

    q·k is between tokens: for a character or word of several tokens, the last one is used, which attends to the others.
    """
    from ..attention.oracle import Steps
    from ..tracing.views.word_map import locate_word

    queries, keys = trace.tokens(part, batch), trace.tokens(part, batch, keys=True).numbered
    _index, (name, first, end) = locate_word(queries, query, by)
    position = queries.find(query)
    word = queries.numbered[position]
    columns: list[np.ndarray] = []
    titles: list[str] = []
    ending: list[str] = []
    if trace.bare:  # it has no q, k and v
        weights = trace.row(layer, head, position, part=part, batch=batch)
        visible = np.ones(len(weights), bool)
        yield say(
            "The row of {word} in {layer}.{head}, strongest keys first; q, k and v, and with them the steps, "
            "aren't there (--eager):",
            word=word,
            layer=layer,
            head=head,
        )
    else:
        steps = trace.steps(layer, head, position, part=part, batch=batch)
        assert isinstance(steps, Steps)  # a mixer's row is mixer_derivation's
        weights, visible, d = steps.weights[0], ~np.isneginf(steps.masked[0]), steps.q.shape[-1]
        columns = [steps.scores[0], steps.scaled[0], steps.masked[0]]
        titles = ["q·k", "q·k/√d" if np.isclose(steps.scale, d**-0.5) else f"q·k×{steps.scale:.3g}", say("masked")]
        difference = trace.difference(layer, head, position, part=part, batch=batch)
        ending = weighted_sum(steps.output, word, difference)
        if end - first > 1:
            yield say(
                "{word} is {n} tokens, which the map joins; q·k is between single tokens, so here is the last of "
                "them, {last}:",
                word=name,
                n=end - first,
                last=word,
            )
            yield ""
        yield from _rotation(trace.rotation(layer, head, position, part=part, batch=batch), word, position)
        message = _("The row of {word} in {layer}.{head}, step by step (d = {d}), strongest keys first:")
        yield say(message, word=word, layer=layer, head=head, d=d)
    order = np.argsort(-weights)[:12]
    table = np.stack([*columns, weights], 1)[order]
    yield from indented(table, [keys[i] for i in order], [*titles, say("weight")])
    yield from _unlisted_keys(weights, visible, order)
    yield from ending


def _origin(steps: Steps, lang: str | None) -> list[str]:
    """Return sentences on where q, k and v come from."""
    if steps.x is None:
        return [say("Q, K and V as they were given.", lang)]
    omitted = [name for name in ("w_q", "w_k", "w_v") if getattr(steps, name) is None]
    sentences = []
    if len(omitted) < 3:
        sentences.append(
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
        )
    if omitted:
        source = "x" if steps.memory is None else "memory"
        equal = all_of(f"{name[2]} = {'x' if name == 'w_q' else source}" for name in omitted)
        names = all_of(name.capitalize() for name in omitted)
        sentences.append(say("Left out: {names}; so {equal}.", lang, names=names, equal=equal))
    return sentences


def _unlisted_keys(weights: np.ndarray, visible: np.ndarray, listed: np.ndarray) -> list[str]:
    """Return a line on the keys that aren't listed: their total weight and how many of them the mask hides."""
    unlisted = np.setdiff1d(np.arange(len(weights)), listed)
    hidden = int((~visible[unlisted]).sum())
    if not len(unlisted):
        return []
    if hidden == len(unlisted):
        return ["  " + say("and {n} more keys, hidden by the mask: 0", n=hidden)]
    message = (
        _("and {n} more keys, which share {sum}; {hidden} of them are hidden by the mask")
        if hidden
        else _("and {n} more keys, which share {sum}")
    )
    return ["  " + say(message, n=len(unlisted), sum=float(weights[unlisted].sum()), hidden=hidden)]


def _rotation(pairs: np.ndarray | None, word: str, position: int) -> Iterator[str]:
    """Yield how rotary positions rotated q, for its first pairs and the last."""
    if pairs is None:
        return
    half = len(pairs)
    rows = [*range(min(3, half)), *([half - 1] if half > 3 else [])]
    yield say(
        "{word} is at position {place}: rotary positions turned its q, {pairs} pairs of numbers, each at "
        "its own speed:",
        word=word,
        place=position,
        pairs=half,
    )
    titles = [say("angle"), say("before"), "", say("after"), ""]
    yield from indented(pairs[rows], [f"q{i}, q{i + half}" for i in rows], titles, most=12)
    yield ""
