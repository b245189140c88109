"""Shared by the experiments: tables and paragraphs for the terminal, timing, and figures in a common style."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..draw import figure_canvas
from ..i18n import Listed, Message, _, paragraph, translated
from ..terminal import text_grid
from . import Results, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

# Distinguishable in greyscale and for most color-blind readers.
INK = ("#2166ac", "#d9480f", "#2b8a3e", "#862e9c", "#868e96")

BUSY_LOAD = 1.3  # programs per core above which times are unreliable


class Table(NamedTuple):
    """A title, a header and rows of cells; columns are right-aligned except those in `words`."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        lines = text_grid.aligned([self.header, *self.rows], self.words)
        lines.insert(1, "─" * text_grid.width(lines[0]))
        return "\n".join([self.title, *("  " + line.rstrip() for line in lines)])


class Column(NamedTuple):
    """A column: the key of its values ("raw.std" is row["raw"]["std"]) or a function of the row, and their format.

    >>> Column("raw.std", ".1f").cell({"raw": {"std": 2}}), Column("took").cell({"took": None})
    ('2.0', '—')
    """

    value: str | Callable[[Row], object]
    format: str | Callable[[float], str] = ""

    def cell(self, row: Row) -> str:
        """Return the formatted value of a row; "—" for None."""
        value: Any = row
        if callable(self.value):
            value = self.value(row)
        else:
            for key in self.value.split("."):
                value = value[key]
        if value is None:
            return "—"
        return self.format(value) if callable(self.format) else f"{value:{self.format}}"


def table(
    title: str, header: Sequence[str], columns: Sequence[Column], rows: Iterable[Row], words: tuple[int, ...] = (0,)
) -> Table:
    """Return a table of the columns' cells for each row."""
    return Table(title, header, [[column.cell(row) for column in columns] for row in rows], words)


def sentence(text: str, /, **values: object) -> str:
    """Return a translated sentence, filled in as by `say`; fields may also use a format of FORMATS.

    >>> sentence(_("In {took:duration}, {rows[0]:share} of {n:,} were right."), took=0.5, rows=[1], n=2000)
    'In 500 ms, 100 % of 2,000 were right.'
    """
    return _SentenceFormatter().vformat(translated(text), (), values)


class _SentenceFormatter(Formatter):
    """Formatter with FORMATS, and otherwise as `say`."""

    def format_field(self, value: Any, spec: str) -> str:
        if spec in FORMATS:
            return FORMATS[spec](value)
        if isinstance(value, Message | Listed):
            value = value.say()
        return format(value, spec or ("" if not isinstance(value, float) else ".4g"))


def paragraph_of(sentences: Callable[[Results], Iterable[str]]) -> Callable[[Results], str]:
    """Decorate a generator of sentences to return a paragraph, with a warning if the machine was busy."""

    @wraps(sentences)
    def shows(results: Results) -> str:
        return paragraph([*sentences(results), *busy_note(results.get("busy"))])

    return shows


def wrap(text: str, cells: int | None = None) -> str:
    """Wrap a text to terminal cells, at spaces and between 汉字, but not before punctuation such as 。

    >>> print(wrap("one two three 我爱北京。", 10))
    one two
    three 我爱
    北京。
    """
    limit = cells or min(shutil.get_terminal_size((100, 24)).columns, 100)
    text = re.sub(
        r"(?<=\d) (?=(%|[kMGTP]?B|ms|s|min|h)(?![A-Za-z]))", "\u00a0", text
    )  # a number and its unit stay together
    pieces: list[str] = []
    for letter in text:
        glued = pieces and not (pieces[-1][-1] == " " or _is_cjk(letter) or _is_cjk(pieces[-1][-1]))
        if glued or (pieces and (letter == " " or letter in "，。；：、）”％")):
            pieces[-1] += letter
        else:
            pieces.append(letter)
    lines = [""]
    for piece in pieces:
        if lines[-1] and text_grid.width((lines[-1] + piece).rstrip()) > limit:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines).replace("\u00a0", " ")


def _is_cjk(letter: str) -> bool:
    return "\u2e80" <= letter <= "\u9fff" or "\uff00" <= letter <= "\uffef"


def amount(value: float) -> str:
    """Format bytes with decimal units.

    >>> amount(40e9), amount(1536)
    ('40.0 GB', '1.5 kB')
    """
    for size, sign in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size * 0.9995:
            return f"{value / size:,.1f} {sign}"
    return f"{value:.0f} B"


def duration(seconds: float) -> str:
    """
    >>> duration(0.00123), duration(75), duration(8000)
    ('1.23 ms', '75.0 s', '2.2 h')
    """
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms" if seconds * 1e3 < 100 else f"{seconds * 1e3:.0f} ms"
    if seconds < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def power_of_ten(value: float) -> str:
    """
    >>> power_of_ten(10**10), power_of_ten(2.5e9), power_of_ten(4096)
    ('10¹⁰', '2.5·10⁹', '4,096')
    """
    if value < 1e6:
        return f"{value:,.0f}"
    front, exponent = f"{value:.2e}".split("e+")
    raised = str(int(exponent)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    front = front.rstrip("0").rstrip(".")
    return f"10{raised}" if front == "1" else f"{front}·10{raised}"


def share(value: float) -> str:
    """
    >>> share(0.985), share(1.0), share(0.9996), share(0.00157)
    ('98.5 %', '100 %', '>99.9 %', '0.16 %')
    """
    if value in (0, 1):
        return f"{value:.0%}".replace("%", " %")
    if value > 0.9994:
        return ">99.9 %"
    return f"{value:.{1 if value >= 0.01 else 2}%}".replace("%", " %")


# Number formats of `sentence`, besides Python's.
FORMATS: dict[str, Callable[[float], str]] = {
    "amount": amount,
    "duration": duration,
    "power": power_of_ten,
    "share": share,
}


def threads(count: int) -> Message:
    """Return the number of threads in words."""
    return Message("{count} thread", count=count) if count == 1 else Message("{count} threads", count=count)


def heads(count: int) -> Message:
    """Return the number of heads in words."""
    return Message("{count} head", count=count) if count == 1 else Message("{count} heads", count=count)


def load_per_core() -> float | None:
    """Return the load average of the last minute per core, or None if the system doesn't provide it."""
    return None if not hasattr(os, "getloadavg") else os.getloadavg()[0] / (os.cpu_count() or 1)


def busy_note(load: float | None) -> list[str]:
    """Return a warning if other programs made the times unreliable."""
    note = _("(Other programs kept this machine busy, {load:.1f} per core: the times are too long and unreliable.)")
    return [] if load is None or load < BUSY_LOAD else [sentence(note, load=load)]


def power_law(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return (a, b) of the power law value = a·size^b, by least squares in logarithms.

    >>> a, b = power_law([10, 20, 40], [300, 1200, 4800])
    >>> round(a, 6), round(b, 6)
    (3.0, 2.0)
    """
    slope, height = np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(values, float)), 1)
    return float(np.exp(height)), float(slope)


def race(rivals: Mapping[str, Callable[[], object]], *, rounds: int = 5, seconds: float = 0.08) -> dict[str, float]:
    """Return the best time of each function in seconds. They take turns of about `seconds` (or one call), so that
    disturbances affect all of them."""
    best = dict.fromkeys(rivals, float("inf"))
    for work in rivals.values():
        work()  # to warm up
    for _round in range(rounds):
        for name, work in rivals.items():
            turn_start = time.perf_counter()
            while True:
                start = time.perf_counter()
                work()
                end = time.perf_counter()
                best[name] = min(best[name], end - start)
                if end - turn_start > seconds:
                    break
    return best


def race_seconds(once: float, *, rounds: int = 5, seconds: float = 0.08) -> float:
    """Return the seconds of a `race` for a function that takes `once` seconds."""
    return once + rounds * max(once, seconds)


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the peak memory that a call allocates, by PyTorch's profiler."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(np.cumsum([0, *changes]).max())


def canvas(down: int, across: int, *, each: tuple[float, float] = (4.0, 3.1), words: Sequence[str] = ()) -> Figure:
    """Return an empty figure for down × across panels; `words` are labels that may need a font with 汉字."""
    return figure_canvas.blank((each[0] * across, each[1] * down), list(words))


def panel(figure: Figure, *at: int | SubplotSpec, title: str, x: str = "", y: str = "") -> Axes:
    """Return a new panel at a subplot position, with a title on the left, axis labels and no frame."""
    axes = figure.add_subplot(*at)
    label_axes(axes, title, x, y)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def label_axes(axes: Axes, title: str, x: str, y: str) -> None:
    """Set the title and the axis labels in the common font sizes."""
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)


def format_ticks(axis: Axis, label: Callable[[float], str]) -> None:
    """Format the tick labels of an axis."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _position: label(value)))


def finish(figure: Figure, path: str | Path | None) -> Figure:
    """Set the fonts of a figure, and save it if `path` is given."""
    return figure_canvas.save(figure, path)
