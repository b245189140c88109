"""Rotary positions in two dimensions: q at position m is rotated by m·θ, k at n by n·θ, and q·k depends only on m − n.

    html(Pair(m=5, n=2))

returns an offline page with sliders for m and n, the two arrows and q·k for every pair of positions; `table_html`
returns the same numbers as plain tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..i18n import Problem, _, language, say
from .head_machine import format_number
from .page_shell import figure_page, tag


@dataclass(frozen=True)
class Pair:
    """A query at position m and a key at position n, rotated by θ per position; positions are 0 to `most`.

    >>> pair = Pair(m=5, n=2)
    >>> round(pair.product(), 3), round(Pair(m=8, n=5).product(), 3), pair.turned("q").round(3).tolist()
    (0.071, 0.071, [-0.801, 0.598])
    """

    q: Sequence[float] = (1.0, 0.0)
    k: Sequence[float] = (1.0, 0.0)
    m: int = 5
    n: int = 2
    theta: float = 0.5
    most: int = 9
    digits: int = 3

    def __post_init__(self) -> None:
        for name in ("q", "k"):
            vector = np.asarray(getattr(self, name), float)
            if vector.shape != (2,) or not np.isfinite(vector).all() or not vector.any():
                raise Problem("{name} is {value}: give two numbers, not both 0", name=name, value=getattr(self, name))
        if not (math.isfinite(self.theta) and 1 <= self.most <= 30 and 0 <= self.digits <= 6):
            raise Problem("theta is an angle, most is from 1 to 30, digits from 0 to 6")
        if not (0 <= self.m <= self.most and 0 <= self.n <= self.most):
            raise Problem("positions are {m} and {n}: give 0 to {most}", m=self.m, n=self.n, most=self.most)

    def turned(self, name: str) -> NDArray[np.float64]:
        """Return q or k rotated to its position."""
        vector, position = (self.q, self.m) if name == "q" else (self.k, self.n)
        return _rotate(vector, position * self.theta)

    def product(self) -> float:
        """Return the dot product of the rotated q and k."""
        return float(self.turned("q") @ self.turned("k"))

    def products(self) -> NDArray[np.float64]:
        """Return the dot product at every m (rows) and n (columns)."""
        every = range(self.most + 1)
        queries, keys = (np.array([_rotate(vector, i * self.theta) for i in every]) for vector in (self.q, self.k))
        return queries @ keys.T


def html(pair: Pair, lang: str | None = None, title: str | None = None) -> str:
    """Return the figure as an offline page.

    >>> html(Pair()).splitlines()[0]
    '<!doctype html>'
    """
    vectors = dict(q=[*map(float, pair.q)], k=[*map(float, pair.k)])
    sizes = dict(m=pair.m, n=pair.n, theta=float(pair.theta), most=pair.most, digits=pair.digits)
    return figure_page("rotary", vectors | sizes, _("Rotary positions"), title, lang, "core/slider")


def table_html(pair: Pair, lang: str | None = None) -> str:
    """Return the same numbers as HTML tables.

    >>> print(table_html(Pair(most=2, m=2, n=1, digits=2), "en").splitlines()[-4])
    <tr><th scope="row">2</th><td>0.54</td><td>0.88</td><td>1.00</td></tr>
    """
    lang = language(lang)
    show = lambda x: format_number(x, pair.digits)  # noqa: E731
    lines = [f'<div class="qkv-stages" lang="{tag(lang)}">', "<table>"]
    lines += [f"<caption>{say('q at position {m}, k at position {n}', lang, m=pair.m, n=pair.n)}</caption>", "<tbody>"]
    for name, position in (("q", pair.m), ("k", pair.n)):
        x, y = pair.turned(name).tolist()
        turn = f"{position} · θ = {show(position * pair.theta)}"
        lines.append(f'<tr><th scope="row">{name}</th><td>{turn}</td><td>{show(x)}</td><td>{show(y)}</td></tr>')
    lines += [f'<tr><th scope="row">q·k</th><td colspan="3">{show(pair.product())}</td></tr>', "</tbody>", "</table>"]
    every = range(pair.most + 1)
    heads = "".join(f'<th scope="col">{n}</th>' for n in every)
    lines += ["<table>", f"<caption>{say('q·k at every m (rows) and n (columns)', lang)}</caption>"]
    lines += [f"<thead><tr><td></td>{heads}</tr></thead>", "<tbody>"]
    for m, row in enumerate(pair.products().tolist()):
        lines.append(f'<tr><th scope="row">{m}</th>' + "".join(f"<td>{show(x)}</td>" for x in row) + "</tr>")
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def _rotate(vector: Sequence[float], angle: float) -> NDArray[np.float64]:
    """Return [x·cos − y·sin, y·cos + x·sin], as attention/positions.py rotates each pair."""
    x, y = vector
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([x * cos - y * sin, y * cos + x * sin])
