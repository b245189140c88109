"""Attention maps in a terminal: a coloured cell per weight, with its number if there is room.

Uses 24-bit colour, 256 colours or the shades ░▒▓█, as the terminal supports; NO_COLOR and pipes get shades.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..i18n import _, say
from ..terminal import text_grid

if TYPE_CHECKING:
    from ..tracing.views.word_map import WordMap

# From light to dark, so that 0.6 and 0.9 differ visibly.
RAMP = ((250, 250, 247), (214, 230, 244), (158, 202, 225), (84, 150, 203), (33, 102, 172), (8, 48, 107))
BELOW = ((250, 250, 247), (253, 219, 199), (244, 165, 130), (214, 96, 77), (178, 24, 43), (103, 0, 31))  # below 0
SHADES = " ░▒▓█"
HIDDEN = "╱╱"


def colours() -> str:
    """Return the terminal's colour support: "true", "256" or "none".

    >>> colours() in ("true", "256", "none")
    True
    """
    if os.environ.get("FORCE_COLOR"):
        return "true"
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return "none"
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "true"
    return "256" if "256" in os.environ.get("TERM", "") else "none"


def heatmap(
    weights: ArrayLike,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    allowed: ArrayLike | None = None,
    mark: tuple[int, int] | None = None,
    special: tuple[Sequence[bool], Sequence[bool]] | None = None,
    colour: str | None = None,
    columns: int | None = None,
    top: float | None = None,
) -> str:
    """Return a map as text: a row per query, a column per key, masked pairs hatched.

    Negative numbers, as of mixers, are red. `mark` points at one cell. `special` marks the queries and the keys that
    are special tokens; their labels are dimmed. If the terminal is too narrow for all keys, each column is the sum of
    several neighbours (see `together`). `top` is the weight with the darkest colour: by default 1, or the largest
    absolute weight if some are negative.

    >>> print(heatmap([[1, 0], [0.25, 0.75]], ["我", "it"], ["我", "it"], allowed=[[1, 0], [1, 1]], colour="none"))
            i
         我 t
      我 1.0 ╱╱
      it .25 .75
    """
    table = np.asarray(weights, dtype=np.float64)
    visible = np.ones(table.shape, bool) if allowed is None else np.broadcast_to(np.asarray(allowed, bool), table.shape)
    colour = colours() if colour is None else colour
    names = _names(queries)
    width = max(map(text_grid.width, names), default=0)
    free = room(columns) - width - 3
    signed = bool((table < 0).any())
    if top is None:
        top = max(float(np.abs(table).max(initial=0)), 1e-30) if signed else 1.0
    cell = 4 + signed if table.shape[1] * (4 + signed) <= free else 2
    labels = list(keys)
    dimmed = [list(side) for side in special] if special is not None and colour != "none" else [[], []]
    join = together(table.shape[1], queries, columns)
    if join > 1:
        table, labels = _sum_columns(table, join), labels[::join]
        visible = _sum_columns(visible.astype(float), join) > 0
        dimmed[1] = dimmed[1][::join]
        mark = None if mark is None else (mark[0], mark[1] // join)
    lines = [" " * (width + 3) + line for line in _header(labels, cell, dimmed[1])]
    for i, name in enumerate(names):
        cells = [_cell(table[i, j], visible[i, j], cell, colour, (i, j) == mark, top) for j in range(table.shape[1])]
        pointer = "▸" if mark is not None and mark[0] == i else " "
        label = text_grid.right(name, width)
        lines.append(f"{pointer} {_dimmed(label) if any(dimmed[0][i : i + 1]) else label} {''.join(cells)}".rstrip())
    return "\n".join(lines)


def together(keys: int, queries: Sequence[str], columns: int | None = None) -> int:
    """Return how many neighbouring keys share a column, so that a map with these rows fits into the terminal.

    >>> together(40, ["a"], columns=100), together(40, ["a"], columns=80), together(40, ["a"], columns=24)
    (1, 2, 4)
    """
    width = max(map(text_grid.width, _names(queries)), default=0)
    return -(-keys // max((room(columns) - width - 3) // 2, 1))


def _names(queries: Sequence[str]) -> list[str]:
    return [text_grid.clip(label, 16) for label in queries]


def room(columns: int | None) -> int:
    """Return `columns`, or the width of the terminal if it is None.

    >>> room(72)
    72
    """
    return columns or shutil.get_terminal_size((100, 24)).columns


def _sum_columns(table: np.ndarray, size: int) -> np.ndarray:
    return np.add.reduceat(table, np.arange(0, table.shape[1], size), axis=1)


def _dimmed(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m"


def _header(labels: Sequence[str], cell: int, dimmed: Sequence[bool]) -> list[str]:
    """Return vertical labels of up to eight characters, aligned at the bottom."""
    words = [label if len(label) <= 8 else label[:7] + "…" for label in labels]
    height = max(map(len, words), default=0)
    words = [" " * (height - len(word)) + word for word in words]
    lines = []
    for line in range(height):
        cells = [text_grid.left(" " * (cell > 2) + word[line], cell) for word in words]
        remaining = len("".join(cells).rstrip())  # drop trailing blanks, also dimmed ones
        for j, text in enumerate(cells):
            visible = text[: max(remaining, 0)]
            remaining -= len(text)
            cells[j] = _dimmed(visible) if visible.strip() and any(dimmed[j : j + 1]) else visible
        lines.append("".join(cells))
    return lines


def _cell(value: float, visible: bool, width: int, colour: str, marked: bool, top: float) -> str:
    if not visible:
        return (HIDDEN if colour == "none" else _dimmed(HIDDEN)) + " " * (width - 2)
    number = ("1.0" if value >= 0.995 else f"{value:.2f}"[1:] if value >= 0.005 else " · ") if width == 4 else "  "
    if width == 5:
        number = _signed(value)
    size = abs(value) / top
    if colour == "none":
        if width > 2:
            return text_grid.left(number, width)
        return ("−" if value < 0 else "") + SHADES[min(int(size**0.5 * 5), 4)] * (1 if value < 0 else 2)
    text = f"{number:^{width}}" if not marked else f"[{number}"[:width] if width == 2 else f"{number}◂"
    ramp, front = RAMP if value >= 0 else BELOW, (255, 231) if size > 0.35 else (40, 236)
    return _on_paper(_ink(size, ramp), front, text, colour)


def paper_of(size: float, text: str, colour: str) -> str:
    """Return black text on the colour of a weight, for colour "true" or "256".

    >>> paper_of(1.0, "cat", "256").endswith("mcat\\x1b[0m")
    True
    """
    return _on_paper(_ink(size), (20, 232), text, colour)


def _on_paper(paper: tuple[int, int, int], front: tuple[int, int], text: str, colour: str) -> str:
    """Return text on a background colour; `front` is its grey as an RGB level and as one of the 256 colours."""
    r, g, b = paper
    if colour == "true":
        return f"\x1b[48;2;{r};{g};{b};38;2;{front[0]};{front[0]};{front[0]}m{text}\x1b[0m"
    code = 16 + 36 * round(r / 51) + 6 * round(g / 51) + round(b / 51)
    return f"\x1b[48;5;{code};38;5;{front[1]}m{text}\x1b[0m"


def _signed(value: float) -> str:
    """Format a number of any size in four characters.

    >>> [_signed(value) for value in (0.001, -0.25, 1.5, -12.3, -4000.0, 1e10)]
    ['  · ', '−.25', ' 1.5', ' −12', '−4e3', '1e10']
    """
    size = abs(value)
    sign = "−" if value < 0 else ""
    if size < 0.005:
        return "  · "
    text = f"{size:.2f}"[1:] if size < 0.995 else f"{size:.1f}" if size < 9.95 else f"{size:.0f}"
    if len(sign + text) <= 4:
        return text_grid.right(sign + text, 4)
    return f"{sign}{size:.0e}".replace("e+0", "e").replace("e+", "e")


def _ink(value: float, ramp: tuple[tuple[int, int, int], ...] = RAMP) -> tuple[int, int, int]:
    """Return the colour of a weight's square root, which separates small weights."""
    position = min(max(float(value), 0.0), 1.0) ** 0.5 * (len(ramp) - 1)
    low = min(int(position), len(ramp) - 2)
    start, end = ramp[low], ramp[low + 1]
    r, g, b = (round(a + (z - a) * (position - low)) for a, z in zip(start, end, strict=True))
    return r, g, b


def whole_map(seen: WordMap, mark: tuple[int, int] | None = None) -> str:
    """Return the labelled map of one head, with a note if a narrow terminal joins columns.

    >>> from importlib.resources import files
    >>> from ..tracing import Trace
    >>> from ..tracing.views.word_map import view
    >>> trace = Trace.load(str(files("qkv") / "demo" / "traces" / "cat-smollm2.safetensors"))
    >>> print(whole_map(view(trace, 13, 8, "words"))[-60:])
     .05 .01 ╱╱
        tired .04 .74  ·   ·   ·  .08 .01 .11 .01  ·
    """
    text = heatmap(seen.weights, *seen.names, allowed=seen.allowed, mark=mark, special=seen.special)
    joined = together(len(seen.keys), seen.names[0])
    if joined == 1:
        return text
    message = _("(the terminal is narrow: each column is the sum of {n} neighbouring keys, labelled by the first)")
    return f"{say(message, n=joined)}\n{text}"
