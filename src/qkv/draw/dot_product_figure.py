"""Why √d: dot products of random vectors spread as their width d grows, and the softmax of a row becomes one-hot.

    html(Draw(d=64))

returns an offline page with a slider for d: histograms of q·k before and after ÷ √d, and the weights of one row.
`table_html` returns the same numbers at every d.

web/steps/random.js has the same random generator (Mulberry32, then Box–Muller), so Python can compute what the page
shows. A wider vector begins with the numbers of a narrower one.

R rows (queries), K keys per row, D numbers in the widest vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..attention.oracle import softmax
from ..i18n import Problem, _, language, say
from .head_machine import format_number
from .page_shell import figure_page, tag

Floats = NDArray[np.float64]
WIDTHS = tuple(2**i for i in range(11))  # 1 … 1,024


def uniforms(seed: int, count: int) -> Floats:
    """Return random numbers in [0, 1) by Mulberry32, whose n-th number depends only on the seed and n.

    >>> uniforms(7, 3).round(6).tolist()
    [0.011705, 0.061958, 0.976908]
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2³²
        t = np.uint32(seed) + np.arange(1, count + 1, dtype=np.uint32) * np.uint32(0x6D2B79F5)
        t = (t ^ (t >> np.uint32(15))) * (t | np.uint32(1))
        t ^= t + (t ^ (t >> np.uint32(7))) * (t | np.uint32(61))
        return (t ^ (t >> np.uint32(14))) / 2.0**32


def normals(seed: int, count: int) -> Floats:
    """Return normal random numbers: two from each pair of uniform ones (Box–Muller).

    >>> normals(7, 3).round(4).tolist()
    [0.142, 0.0582, -0.8643]
    """
    u = uniforms(seed, count + count % 2)
    size, angle = np.sqrt(-2 * np.log(1 - u[0::2])), 2 * np.pi * u[1::2]
    return np.stack([size * np.cos(angle), size * np.sin(angle)], -1).reshape(-1)[:count]


@dataclass(frozen=True)
class Draw:
    """Random queries and keys; `d` is the initial width.

    >>> draw = Draw()
    >>> [round(float(draw.products(d).std()), 2) for d in (1, 64, 1024)]
    [1.0, 8.11, 30.86]
    >>> [round(float(draw.weights(1024, scaled).max(1).mean()), 2) for scaled in (False, True)]
    [0.97, 0.35]
    """

    d: int = 64
    seed: int = 7
    rows: int = 64
    keys: int = 8
    digits: int = 2

    def __post_init__(self) -> None:
        if self.d not in WIDTHS:
            raise Problem("d is {d}: give a power of two from 1 to 1024", d=self.d)
        if not (0 <= self.seed < 2**32 and 1 <= self.rows <= 256 and 2 <= self.keys <= 16 and 0 <= self.digits <= 6):
            raise Problem("give a seed below 2³², 1 to 256 rows, 2 to 16 keys and 0 to 6 digits")

    @cached_property
    def _every(self) -> Floats:
        """q·k at every width: (widths, R, K)."""
        each = WIDTHS[-1]
        drawn = normals(self.seed, self.rows * (1 + self.keys) * each).reshape(self.rows, 1 + self.keys, each)
        sums = np.cumsum(drawn[:, :1] * drawn[:, 1:], -1)  # (R, K, D)
        return np.moveaxis(sums[..., [d - 1 for d in WIDTHS]], -1, 0)

    def products(self, d: int, scaled: bool = False) -> Floats:
        """Return q·k of every row and key (R, K), divided by √d if `scaled`."""
        products: Floats = self._every[WIDTHS.index(d)]
        return products / np.sqrt(d) if scaled else products

    def weights(self, d: int, scaled: bool) -> Floats:
        """Return the softmax of every row (R, K)."""
        return softmax(self.products(d, scaled))


def html(draw: Draw, lang: str | None = None, title: str | None = None) -> str:
    """Return the figure as an offline page.

    >>> html(Draw()).splitlines()[0]
    '<!doctype html>'
    """
    header = dict(widths=WIDTHS, d=draw.d, seed=draw.seed, rows=draw.rows, keys=draw.keys, digits=draw.digits)
    return figure_page("distribution", header, _("Why √d"), title, lang, "core/slider")


def table_html(draw: Draw, lang: str | None = None) -> str:
    """Return HTML tables: spread of q·k and sharpness of weights at every d, and the first row's weights at `draw.d`.

    >>> print(table_html(Draw(), "en").splitlines()[-4])
    <tr><th scope="row">÷ √d</th><td>0.12</td><td>0.06</td><td>0.32</td><td>0.06</td><td>0.20</td><td>0.06</td><td>0.09</td><td>0.10</td></tr>
    """
    lang = language(lang)
    show = lambda x: format_number(float(x), draw.digits)  # noqa: E731
    spread, largest = say("spread (standard deviation)", lang), say("largest weight of a row, on average", lang)
    lines = [f'<div class="qkv-stages" lang="{tag(lang)}">', "<table>"]
    lines += [
        f"<caption>{say('{n} dot products of random vectors', lang, n=draw.rows * draw.keys)}</caption>",
        "<thead>",
    ]
    lines.append(
        f'<tr><th scope="col" rowspan="2">d</th><th colspan="2">{spread}</th><th colspan="2">{largest}</th></tr>'
    )
    lines.append("<tr>" + '<th scope="col">q·k</th><th scope="col">÷ √d</th>' * 2 + "</tr>")
    lines += ["</thead>", "<tbody>"]
    for d in WIDTHS:
        spreads = [draw.products(d, scaled).std() for scaled in (False, True)]
        sharp = [draw.weights(d, scaled).max(1).mean() for scaled in (False, True)]
        lines.append(
            f'<tr><th scope="row">{d}</th>' + "".join(f"<td>{show(x)}</td>" for x in (*spreads, *sharp)) + "</tr>"
        )
    lines += ["</tbody>", "</table>", "<table>"]
    caption = say("Weights of one row over {n} keys, d = {d}", lang, n=draw.keys, d=draw.d)
    lines += [f"<caption>{caption}</caption>", "<tbody>"]
    for name, scaled in (("q·k", False), ("÷ √d", True)):
        cells = "".join(f"<td>{show(x)}</td>" for x in draw.weights(draw.d, scaled)[0])
        lines.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])
