"""Print steps: each has a title, sentences and labelled tables.

>>> print(print_steps(["Two numbers"], [TextStep("1  their sum", "It is 3.", TextTable([[1, 2]], ["a"], title="x"))], digits=0))
Two numbers
<BLANKLINE>
1  their sum
   It is 3.
     x
     a  1  2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from ..i18n import _, say
from ..terminal import text_grid

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
    """Return the introduction and the steps as text, with `digits` decimals."""
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
