"""An interactive attention head with small numbers: X → Q, K, V → scores → scaled → masked → weights → output.

    html(Machine(["我", "爱", "你"], x=[[1, 0], [0, 1], [1, 1]], mask="causal"))

returns an offline page in which every input can be edited and all later stages are updated; `table_html` returns the
same stages as plain tables, for print and for browsers without scripts.

The inputs are x with its W; or q, k and v; or q and k (the stages then end with the weights); or the scores. The stages
are computed here by the oracle and in the page by web/core/arithmetic.js; a test compares the two.

N words, M keys (N without `memory`), C numbers per word, D per query.
"""

from __future__ import annotations

import html as escaping
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..attention import oracle
from ..i18n import Message, Problem, _, all_of, language, say, unknown
from .page_shell import figure_page, tag

STAGES = ("x", "w", "qkv", "scores", "scaled", "masked", "weights", "output")
SCALES = ("sqrt", "none")
# The tables of each stage, in reading order.
TABLES = {stage: (stage,) for stage in STAGES} | {
    "x": ("x", "memory"),
    "w": ("w_q", "w_k", "w_v"),
    "qkv": ("q", "k", "v"),
    "masked": ("mask", "masked"),
}
NAMES = {
    "x": _("Words X"),
    "memory": _("Other text Y"),
    "w_q": "W_Q",
    "w_k": "W_K",
    "w_v": "W_V",
    "q": _("Queries Q"),
    "k": _("Keys K"),
    "v": _("Values V"),
    "scores": _("Scores"),
    "scaled": _("Scaled"),
    "mask": _("Mask"),
    "masked": _("Masked"),
    "weights": _("Weights"),
    "output": _("Output"),
}
OVER_KEYS = ("scores", "scaled", "mask", "masked", "weights")  # tables with a column per key
INPUTS = ("x", "memory", "w_q", "w_k", "w_v", "q", "k", "v", "scores")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Machine:
    """The inputs of a machine and the stages to show.

    An omitted W is the identity. `memory` with `key_words`: keys and values come from another text. `mask`: "causal",
    or True where a query may attend. `scale`: "sqrt" divides by √d, "none" leaves the scores unchanged (the default if
    only scores are given), a number is a factor. `show`: the stages, by default all available. `query`: the initially
    highlighted row. `digits`: decimals of computed numbers.

    >>> made = Machine(["I", "sing"], x=[[1, 0], [0, 1]], mask="causal")
    >>> made.stages, made.steps().weights.round(2).tolist()
    (('x', 'qkv', 'scores', 'scaled', 'masked', 'weights', 'output'), [[1.0, 0.0], [0.33, 0.67]])
    >>> Machine(["a"], scores=[[1, 2, 3]], key_words="abc").stages
    ('scores', 'weights')
    """

    words: Sequence[str]
    _: KW_ONLY
    x: ArrayLike | None = None  # (N, C)
    w_q: ArrayLike | None = None  # (C, D)
    w_k: ArrayLike | None = None
    w_v: ArrayLike | None = None
    q: ArrayLike | None = None  # (N, D)
    k: ArrayLike | None = None  # (M, D)
    v: ArrayLike | None = None
    scores: ArrayLike | None = None  # (N, M)
    key_words: Sequence[str] | None = None
    memory: ArrayLike | None = None  # (M, C)
    mask: str | ArrayLike | None = None  # (N, M)
    scale: str | float = "sqrt"
    show: Sequence[str] | None = None
    query: int | str | None = None
    digits: int = 2

    def __post_init__(self) -> None:
        inputs = {name for name in INPUTS if getattr(self, name) is not None}
        kinds = (({"x"}, {"memory", "w_q", "w_k", "w_v"}), ({"q", "k"}, {"v"}), ({"scores"}, {"v"}))
        if not any(required <= inputs <= required | optional for required, optional in kinds):
            raise Problem(
                "a machine takes x (with its W, and memory for another text), or q and k (and v), or scores (and v); "
                "got {given}",
                given=all_of(sorted(inputs)) if inputs else Message("nothing"),
            )
        if isinstance(self.scale, str) and self.scale not in SCALES:
            raise unknown("scale", self.scale, SCALES)
        if not isinstance(self.scale, str) and not (math.isfinite(self.scale) and self.scale > 0):
            raise Problem("scale is {scale}: give a positive number, sqrt or none", scale=self.scale)
        if isinstance(self.mask, str) and self.mask != "causal":
            raise unknown("mask", self.mask, ["causal"])
        if not 0 <= self.digits <= 6:
            raise Problem("digits is {digits}: give 0 to 6", digits=self.digits)
        self.steps()  # raises if shapes don't match
        stages = self._available_stages()
        for stage in self.show or ():
            if stage not in STAGES:
                raise unknown("show", stage, STAGES)
            if stage not in (*stages, "scaled", "masked"):
                raise Problem(
                    "there is no stage {stage} in this machine; there are: {stages}", stage=stage, stages=all_of(stages)
                )
        self.row()  # raises if there is no such word

    @property
    def stages(self) -> tuple[str, ...]:
        """The displayed stages, in reading order."""
        return self._available_stages() if self.show is None else tuple(stage for stage in STAGES if stage in self.show)

    def steps(self) -> oracle.Steps:
        """Return every stage, computed by the oracle."""
        scale = {"sqrt": None, "none": 1.0}[self.scale] if isinstance(self.scale, str) else float(self.scale)
        words = [*map(str, self.words)]
        others = None if self.key_words is None else [*map(str, self.key_words)]
        if self.x is not None:
            cross = self.memory is not None
            if others is not None and not cross:
                raise Problem("key_words name the rows of memory: give memory too")
            mask = self._allowed(len(words), len(np.asarray(self.memory)) if cross else len(words))
            names: dict[str, Any] = dict(names=words, memory_names=others if cross else None)
            weights = self.w_q, self.w_k, self.w_v
            return oracle.steps(self.x, *weights, mask=mask, scale=scale, memory=self.memory, **names)
        q, k = self.q, self.k
        if self.scores is not None:  # one-hot keys give these scores
            q = np.asarray(self.scores, float)
            k = np.eye(q.shape[-1])
            scale = 1.0 if scale is None else scale
        keys = np.asarray(k)
        v = np.zeros((len(keys), 1)) if self.v is None else self.v
        mask = self._allowed(len(words), len(keys))
        return oracle.from_qkv(() if q is None else q, keys, v, mask, scale, names=words, memory_names=others)

    def row(self) -> int | None:
        """Return the index of the initially highlighted row, or None."""
        if self.query is None:
            return None
        if isinstance(self.query, int) and 0 <= self.query < len(self.words):
            return self.query
        if self.query in self.words:
            return [*self.words].index(str(self.query))
        raise Problem("there is no word {word}; there are: {words}", word=self.query, words=all_of(self.words))

    def tables(self) -> dict[str, Floats]:
        """Return every available table by name; the mask as 1 and 0."""
        steps = self.steps()
        tables = {name: getattr(steps, name) for name in ("scores", "scaled", "masked", "weights")}
        if self.scores is None:
            tables |= {"q": steps.q, "k": steps.k}
        if self.v is not None or self.x is not None:
            tables |= {"v": steps.v, "output": steps.output}
        inputs = {name: np.asarray(getattr(self, name), float) for name in INPUTS if getattr(self, name) is not None}
        allowed = self._allowed(*steps.scores.shape)
        return tables | inputs | {"mask": np.ones(steps.scores.shape) if allowed is None else allowed.astype(float)}

    def _allowed(self, n: int, m: int) -> NDArray[np.bool_] | None:
        """Return the mask as a table; causal is aligned lower-right, as everywhere in qkv."""
        if isinstance(self.mask, str):
            return np.tri(n, m, m - n, dtype=bool)
        if self.mask is None:
            return None
        allowed = np.asarray(self.mask, bool)
        if allowed.shape != (n, m):
            raise Problem(
                "mask is {shape}: give a row for each of {n} queries, with a True/False for each of {m} keys",
                shape=allowed.shape,
                n=n,
                m=m,
            )
        return allowed

    def _available_stages(self) -> tuple[str, ...]:
        """Return the stages that the inputs allow."""
        projected = self.x is not None
        available = {
            "x": projected,
            "w": any(w is not None for w in (self.w_q, self.w_k, self.w_v)),
            "qkv": self.scores is None or self.v is not None,
            "scores": True,
            "scaled": self.scores is None or self.scale not in SCALES,
            "masked": self.mask is not None,
            "weights": True,
            "output": projected or self.v is not None,
        }
        return tuple(stage for stage in STAGES if available[stage])


def html(machine: Machine, lang: str | None = None, title: str | None = None) -> str:
    """Return the machine as an offline page.

    >>> html(Machine(["I", "sing"], x=[[1, 0], [0, 1]])).splitlines()[0]
    '<!doctype html>'
    """
    steps, tables = machine.steps(), machine.tables()
    header: dict[str, object] = dict(
        words=steps.names(0, steps.scores.shape[0]),
        keys=steps.names(1, steps.scores.shape[1]),
        given={name: tables[name].tolist() for name in INPUTS if getattr(machine, name) is not None},
        mask=tables["mask"].astype(bool).tolist(),
        scale=machine.scale,
        show=machine.stages,
        query=machine.row(),
        digits=machine.digits,
    )
    return figure_page("machine", header, _("Attention, step by step"), title, lang)


def table_html(machine: Machine, lang: str | None = None) -> str:
    """Return the same stages and numbers as HTML tables.

    >>> print(table_html(Machine(["I"], scores=[[1, 1]], key_words=["a", "b"], show=["weights"]), "en"))
    <div class="qkv-stages" lang="en">
    <table>
    <caption>Weights</caption>
    <thead><tr><td></td><th scope="col">a</th><th scope="col">b</th></tr></thead>
    <tbody>
    <tr><th scope="row">I</th><td>0.50</td><td>0.50</td></tr>
    </tbody>
    </table>
    </div>
    """
    lang = language(lang)
    steps = machine.steps()
    words, keys = (steps.names(axis, size) for axis, size in enumerate(steps.scores.shape))
    tables = machine.tables()
    lines = [f'<div class="qkv-stages" lang="{tag(lang)}">']
    for stage in machine.stages:
        for name in filter(tables.__contains__, TABLES[stage]):
            table = tables[name]
            column_names = keys if name in OVER_KEYS else [str(c + 1) for c in range(table.shape[1])]
            row_names = keys if name in ("k", "v", "memory") else words
            if name.startswith("w_"):
                row_names = [str(c + 1) for c in range(len(table))]
            is_input = getattr(machine, name, None) is not None
            lines += ["<table>", f"<caption>{escaping.escape(_caption(name, machine, steps, lang))}</caption>"]
            header = "".join(f'<th scope="col">{escaping.escape(each)}</th>' for each in column_names)
            lines += [f"<thead><tr><td></td>{header}</tr></thead>", "<tbody>"]
            for word, row in zip(row_names, table, strict=True):
                cells = "".join(f"<td>{_cell(name, x, is_input, machine.digits)}</td>" for x in row.tolist())
                lines.append(f'<tr><th scope="row">{escaping.escape(word)}</th>{cells}</tr>')
            lines += ["</tbody>", "</table>"]
    return "\n".join([*lines, "</div>"])


def _caption(name: str, machine: Machine, steps: oracle.Steps, lang: str) -> str:
    caption = say(NAMES[name], lang)
    if name != "scaled":
        return caption
    d = steps.q.shape[-1]
    factors = {"sqrt": f"÷ √{d}", "none": "÷ 1"}
    return f"{caption} {factors[machine.scale] if isinstance(machine.scale, str) else f'× {machine.scale:g}'}"


def _cell(name: str, x: float, is_input: bool, digits: int) -> str:
    """Return the text of a cell: inputs with up to four decimals, computed numbers with `digits`.

    >>> _cell("x", 0.5, True, 2), _cell("mask", 1.0, True, 2), _cell("q", 0.5, False, 2)
    ('0.5', '■', '0.50')
    """
    if name == "mask":
        return "■" if x else "·"
    text = format_number(x, max(digits, 4) if is_input else digits)
    return text.rstrip("0").rstrip(".") if is_input and "." in text else text


def format_number(x: float, digits: int) -> str:
    """Format a number as the pages do: a true minus sign, no negative 0, ties rounded away from 0 as in JavaScript.

    >>> [format_number(x, 2) for x in (0.125, -0.125, -0.001, -math.inf)]
    ['0.13', '−0.13', '0.00', '−∞']
    """
    if math.isinf(x):
        return "−∞"
    text = f"{Decimal(x).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
