"""Text in columns for a terminal, where 汉字 are two cells wide.

>>> print(numbers([[0.5, 0.25], [1, 0]], rows=["我", "it"], columns=["a", "b"]))
         a      b
我  0.500  0.250
it  1.000  0.000
"""

import bisect
import itertools
import math
import unicodedata
from collections.abc import Container, Sequence


def width(text: str) -> int:
    """Return the number of terminal cells of a text: wide East Asian characters take two, combining marks none."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def right(text: str, cells: int) -> str:
    """Pad the text on the left to this many cells."""
    return " " * (cells - width(text)) + text


def left(text: str, cells: int) -> str:
    """Pad the text on the right to this many cells."""
    return text + " " * (cells - width(text))


def clip(text: str, cells: int) -> str:
    """Cut the text to this many cells; a cut is shown as …"""
    if width(text) <= cells:
        return text
    ends = list(itertools.accumulate(map(width, text)))
    return text[: bisect.bisect_right(ends, cells - 1)] + "…"


def aligned(rows: Sequence[Sequence[str]], words: Container[int] = (0,)) -> list[str]:
    """Return a line per row, cells separated by two blanks. Columns are right-aligned, those in `words` left-aligned.

    >>> aligned([["我", "12"], ["it", "3"]])
    ['我  12', 'it   3']
    """
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join((left if c in words else right)(cell, widths[c]) for c, cell in enumerate(row)) for row in rows]


def number(value: float, digits: int = 3) -> str:
    """Format a number with a real minus sign, −∞, and an exponent only if needed."""
    if value == -math.inf:
        return "−∞"
    size = abs(value)
    value = value if size else 0.0  # −0 is 0
    text = f"{value:.{digits}f}" if size < 1e5 and (size == 0 or size >= 0.5 * 10.0**-digits) else f"{value:.1e}"
    return text.replace("-", "−")


def numbers(
    matrix: object,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    digits: int = 3,
    most: int = 12,
) -> str:
    """Format a matrix with row and column labels. If it has more than `most` of either, the middle is shown as …"""
    import numpy as np  # here, because `qkv --help` needs only the widths

    table = np.asarray(matrix, dtype=np.float64)
    visible_rows, visible_columns = (_visible(size, most) for size in table.shape)
    grid = [] if columns is None else [["", *("…" if j is None else clip(columns[j], 14) for j in visible_columns)]]
    for i in visible_rows:
        if i is not None:
            cells = ["…" if j is None else number(table[i, j], digits) for j in visible_columns]
            grid.append([str(i) if rows is None else clip(rows[i], 14), *cells])
    lines = aligned(grid)
    if None in visible_rows:
        margin = max(width(row[0]) for row in grid)
        lines.insert(visible_rows.index(None) + (columns is not None), right("…", margin))
    return "\n".join(lines)


def _visible(n: int, most: int) -> list[int | None]:
    if n <= most:
        return list(range(n))
    return [*range(most - most // 3 - 1), None, *range(n - most // 3, n)]
