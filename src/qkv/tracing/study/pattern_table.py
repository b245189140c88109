"""The table of heads that patterns.py makes: a score for every head and kind, the heads of each kind, and how it prints."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from ...i18n import _, language, say, unknown
from ...terminal import text_grid
from ..views.head_ranking import strongest
from ..views.token_labels import PARTS, Tokens

CLEAR = 0.6  # the least lift with which a head is named for a kind …
MARGIN = 0.3  # … and its least lead over every other kind
EVEN = 0.95  # the least evenness of a uniform head
MIN_QUERIES = 3  # with fewer queries no kind is named

# Kinds in the order of display; a head of one kind is also of a wider one that contains it.
RARE = ("duplicate", "induction")  # scored on the few queries that can show them
PLAIN = ("previous", "next", "self", "first", "punctuation", "diagonal")
WIDE = ("local", "columns", "monotone")
KINDS = (*PLAIN[:-1], "local", "columns", *RARE, "diagonal", "monotone", "uniform")
MEANING = _(
    "4.0 is layer 4, head 0, both counted from 0. "
    "A number is the mean weight on the keys that count (in brackets: of a head that spreads its weight evenly). "
    "It says where a head looks on this text, not what it is for."
)
CALLED = {
    "previous": _("previous token"),
    "next": _("next token"),
    "self": _("itself"),
    "first": _("first token (sink)"),
    "punctuation": _("punctuation, delimiters"),
    "local": _("local"),
    "columns": _("a few keys for all"),
    "duplicate": _("same token before"),
    "induction": _("induction"),
    "diagonal": _("diagonal"),
    "monotone": _("monotone alignment"),
    "uniform": _("uniform"),
    "mixed": _("mixed"),
    "none": _("none of these"),
}


OF_SELF = ("previous", "next", "self", "first", "punctuation", "local", "columns", *RARE, "uniform")
OF_CROSS = ("first", "punctuation", "columns", "diagonal", "monotone", "uniform")


@dataclass(frozen=True)
class Score:
    """The score of a head for a kind, that of an even head, and the number of queries; NaN without any."""

    value: float
    baseline: float
    count: int

    @property
    def lift(self) -> float:
        """(score − baseline) / (1 − baseline): 0 for an even head, 1 for a perfect one."""
        return (self.value - self.baseline) / (1 - self.baseline) if self.baseline < 1 else math.nan


@dataclass(frozen=True, repr=False)
class HeadRow:
    """One head: its name (a kind, "mixed" or "none"), its scores, and its mean distance."""

    layer: int
    head: int
    name: str
    scores: dict[str, Score]
    distance: float  # mean |query − key| in tokens, NaN in cross-attention
    keys: tuple[int, ...]  # the keys that most of its weight goes to
    mixture: tuple[str, ...] = ()  # the kinds of a mixed head

    def __repr__(self) -> str:
        """Show the name and the scores of its kinds; `scores` has all of them."""
        kinds = self.mixture or ((self.name,) if self.name in self.scores else ())
        return f"<Row {self.place} {self.name}{''.join(f' {k} {self.scores[k].value:.2f}' for k in kinds)}>"

    @property
    def place(self) -> str:
        """The head's name as in `edit`: "13.8"."""
        return f"{self.layer}.{self.head}"


@dataclass(frozen=True, repr=False)
class Patterns:
    """Every head of one part of a model on one text: `print` it, or use `table`, `best(kind)`, `named(kind)`."""

    table: list[HeadRow]
    part: str
    tokens: Tokens  # of the keys
    model: str = ""
    padding: int = 0  # how many of them are padding

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that this part is scored for."""
        return OF_CROSS if self.part == "cross" else OF_SELF

    def named(self, kind: str) -> list[HeadRow]:
        """Return the heads of this name, strongest first."""
        rows = [row for row in self.table if row.name == kind]
        return strongest(rows, lambda row: row.scores[kind].value) if kind in self.kinds else rows

    def best(self, kind: str, most: int = 5) -> list[HeadRow]:
        """Return the heads with the highest score for a kind, whatever their name; none if the text can't show it."""
        self._check(kind)
        rows = [row for row in self.table if not math.isnan(row.scores[kind].value)]
        return strongest(rows, lambda row: row.scores[kind].value)[:most]

    def array(self, kind: str, what: Literal["value", "baseline", "count", "lift"] = "value") -> np.ndarray:
        """Return the "value", "baseline", "count" or "lift" of a kind for every head, (layers, heads); NaN for layers without
        attention."""
        self._check(kind)
        heads = 1 + max((row.head for row in self.table), default=-1)
        layers = 1 + max((row.layer for row in self.table), default=-1)
        numbers = np.full((layers, heads), np.nan)
        for row in self.table:
            numbers[row.layer, row.head] = getattr(row.scores[kind], what)
        return numbers

    def show(self, lang: str | None = None, most: int = 6, columns: int | None = None) -> str:
        """Return the heads by kind, with their scores and those of an even head: at most `most` of each, as many as fit into
        a line of the terminal (or of `columns`)."""
        lang = language(lang)
        lines = self._lines(lang)
        margin = max(text_grid.width(label) for label, *_ in lines)
        room = (columns or shutil.get_terminal_size((100, 24)).columns) - margin - 7
        rows = [
            f"{text_grid.left(label, margin)}  {count:>3}  {_fit_line(heads, most, room, count, lang)}".rstrip()
            for label, count, heads in lines
        ]
        return "\n".join([self._title(lang), *rows, say(MEANING, lang)])

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        """Show the number of heads of each kind in one line."""
        counts = {kind: len(self.named(kind)) for kind in (*self.kinds, "mixed", "none")}
        kinds = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count)
        return f"<Patterns of {self.model or 'a model'}: {self._title('en', named=False)}: {kinds}>"

    def _repr_html_(self) -> str:
        """Return an HTML table with a row per kind, for notebooks."""
        lang = language()
        titles = (
            say(title, lang)
            for title in (_("looks at"), _("heads"), _("strongest: layer.head, score (of an even head)"))
        )
        rows = [
            f"<tr><th scope=row style='text-align: left'>{escape(label)}</th><td>{count}</td>"
            f"<td style='text-align: left'>{escape(_fit_line(heads, 4, 10**6, count, lang))}</td></tr>"
            for label, count, heads in self._lines(lang)
        ]
        heading = "".join(f"<th scope=col style='text-align: left'>{escape(title)}</th>" for title in titles)
        return (
            f"<table><caption style='text-align: left'>{escape(self._title(lang))}</caption>"
            f"<thead><tr>{heading}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<p>{escape(say(MEANING, lang))}</p>"
        )

    def _title(self, lang: str, named: bool = True) -> str:
        part, tokens = say(PARTS[self.part], lang), len(self.tokens) - self.padding
        title = say("{part}, {heads} heads on {tokens} tokens", lang, part=part, heads=len(self.table), tokens=tokens)
        return f"{self.model}: {title}" if self.model and named else title

    def _lines(self, lang: str) -> list[tuple[str, int, list[str]]]:
        """Return the label of each kind, the number of its heads and their texts, or why the nearest head is not of it."""
        label = {kind: say(CALLED[kind], lang) for kind in (*self.kinds, "mixed", "none")}
        lines = []
        for kind in self.kinds:
            rows = self.named(kind)
            heads = [self._describe(row, kind, lang) for row in rows] or [self._nearest(kind, label, lang)]
            lines.append((label[kind], len(rows), heads))
        mixed = [
            row.place + "".join(f" {label[k]} {row.scores[k].value:.2f}" for k in row.mixture)
            for row in self.named("mixed")
        ]
        return [*lines, (label["mixed"], len(mixed), mixed), (label["none"], len(self.named("none")), [])]

    def _nearest(self, kind: str, label: dict[str, str], lang: str) -> str:
        """Explain why the head with the highest score for a kind is not named for it."""
        best = self.best(kind, 1)
        if not best:
            return say("this text can't show it", lang)
        row, score = best[0], best[0].scores[kind]
        values = dict(head=self._describe(row, kind, lang), kind=label[row.name], count=score.count)
        if score.count < MIN_QUERIES:
            why = _("highest: {head}, on {count} tokens only")
        elif kind == "uniform" and score.value < EVEN:
            why = _("highest: {head}, not even enough")
        elif kind != "uniform" and not score.lift >= CLEAR:
            why = _("highest: {head}, too near to an even head")
        else:  # the head is named for a narrower kind: a previous-token head is also local
            why = (
                _("highest: {head}, but another kind comes close")
                if row.name == "none"
                else _("highest: {head}, counted as “{kind}”")
            )
        return say(why, lang, **values)

    def _describe(self, row: HeadRow, kind: str, lang: str) -> str:
        score = row.scores[kind]
        if kind == "uniform":
            return f"{row.place} {score.value:.2f}"
        more = ""
        if kind == "local":
            more = say(", mean distance {distance}", lang, distance=f"{row.distance:.1f}")
        elif kind == "columns":
            names = self.tokens.numbered
            more = " " + " ".join(f"{j}:{text_grid.clip(names[j], 12)}" for j in row.keys)
        return f"{row.place} {score.value:.2f} ({score.baseline:.2f}){more}"

    def _check(self, kind: str) -> None:
        if kind not in self.kinds:
            raise unknown("kind", kind, self.kinds)


def _fit_line(heads: list[str], limit: int, room: int, count: int, lang: str) -> str:
    """Join as many heads as fit into `room`, at least one, and add how many are left out."""
    for n in range(min(limit, len(heads)), 0, -1):
        line = "  ".join(heads[:n])
        if n < count:
            line += "  " + say("and {n} more", lang, n=count - n)
        if text_grid.width(line) <= room:
            break
    return line if heads else ""
