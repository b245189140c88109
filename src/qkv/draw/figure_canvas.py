"""Shared parts of the figures: fonts for Chinese labels, cells with hatched masks, labels that don't overlap.

Chinese labels use any installed CJK font or that of the extra `fonts`. Figures don't use pyplot: they have no window
and no global state.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..disk.atomic_files import atomic_write
from ..i18n import Notice, language, pip_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

COLOURS = "Blues"
SIGNED = "RdBu"  # below 0 red, above 0 blue
GREY = "#767676"  # special tokens: the lightest grey that is readable on white
MAX_LABELS = 64
MIN_GAP = 2  # minimum pixels between two labels
REPLACEMENTS = str.maketrans({"␍": "↵"})  # a character that DejaVu Sans lacks
# Common system fonts with Chinese characters, simplified Chinese first. Older matplotlib versions read only the first
# face of a Noto collection, JP, which has all characters too.
REGIONS = ("SC", "CN", "TC", "HK", "TW", "JP", "KR")
CJK_FONTS = (
    *(f"{family}{region}" for region in REGIONS for family in ("Noto Sans ", "Noto Sans CJK ", "Source Han Sans ")),
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "Arial Unicode MS",
    "Droid Sans Fallback",
    *(f"{family}{region}" for region in REGIONS for family in ("Noto Serif ", "Noto Serif CJK ", "Source Han Serif ")),
)
CHINESE = "汉这层头译"  # a font without one of these isn't used
FONT_PACKAGE = "pylopdf-fonts-zh-cn"  # of the extra `fonts`


def paint(
    axes: Axes,
    table: np.ndarray,
    allowed: ArrayLike | None,
    top: float | None = 1.0,
    *,
    bottom: float = 0.0,
    colours: str = COLOURS,
) -> AxesImage:
    """Draw a cell per number, coloured from `bottom` to `top` (None: the maximum); hatch cells that aren't allowed."""
    image = axes.imshow(table, cmap=colours, vmin=bottom, vmax=top, aspect="auto", interpolation="nearest")
    if allowed is not None:
        hidden = ~np.broadcast_to(np.asarray(allowed, bool), table.shape)
        hatch = "////" if max(table.shape) <= 96 else None  # smaller cells are plain grey
        for i, row in enumerate(hidden):
            edges = np.flatnonzero(np.diff(np.concatenate([[0], row, [0]])))
            runs = [(start - 0.5, stop - start) for start, stop in edges.reshape(-1, 2)]
            if runs:
                face = "none" if hatch else "#e4e4e4"
                axes.broken_barh(runs, (i - 0.5, 1), facecolor=face, edgecolor="#cccccc", hatch=hatch, linewidth=0)
    return image


def write(axes: Axes, table: np.ndarray, image: AxesImage) -> None:
    """Write each finite number into its cell, in black or white."""
    for (row, col), value in np.ndenumerate(table):
        if np.isfinite(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            ink = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "black"
            axes.text(col, row, f"{value:z.2f}", ha="center", va="center", color=ink, fontsize=8)


def label(
    axes: Axes,
    queries: Sequence[str] | None,
    keys: Sequence[str] | None,
    special: tuple[Sequence[bool], Sequence[bool]] | None = None,
    *,
    small: bool = False,
) -> None:
    """Label rows and columns, special tokens in grey; None means no labels."""
    special_sides = special or ((), ())
    for labels, special_flags, axis, vertical in (
        (keys, special_sides[1], axes.xaxis, True),
        (queries, special_sides[0], axes.yaxis, False),
    ):
        if labels is None:
            axis.set_ticks([])
            continue
        every = -(-len(labels) // MAX_LABELS)
        axis.set_ticks(range(0, len(labels), every))
        axis.set_ticklabels([_clip(label) for label in labels[::every]], fontsize=6 if small else 9, parse_math=False)
        if vertical and max(map(len, labels), default=0) > 2:
            for text in axis.get_ticklabels():  # each label ends under its column
                text.set(rotation=60, ha="right", rotation_mode="anchor")
        for text, dim in zip(axis.get_ticklabels(), special_flags[::every], strict=False):
            text.set_color(GREY if dim else "black")


def _thin_labels(figure: Figure) -> None:
    """Keep every n-th label, so that none touch. The layout is computed first, since it decides the available space."""
    from matplotlib.ticker import FuncFormatter  # set by `set_ticklabels`; other axes choose their labels

    labelled = [
        axis
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        if isinstance(axis.get_major_formatter(), FuncFormatter) and len(axis.get_ticklocs()) > 1
    ]
    if not labelled:
        return
    figure.draw_without_rendering()
    for axis in labelled:
        ticks, texts = axis.get_ticklocs(), axis.get_ticklabels()
        spans = [_span(text, axis.axis_name == "x", figure.dpi) for text in texts]
        every = 1
        while any(b[0] < a[1] + MIN_GAP and a[0] < b[1] + MIN_GAP for a, b in pairwise(spans[::every])):
            every += 1
        if every == 1:
            continue
        labels = [(text.get_text(), text.get_color()) for text in texts[::every]]
        properties = texts[0].properties()
        style = {name: properties[name] for name in ("fontsize", "rotation", "horizontalalignment", "rotation_mode")}
        axis.set_ticks(ticks[::every], [text for text, _ in labels], parse_math=False, **style)
        for text, (_, colour) in zip(axis.get_ticklabels(), labels, strict=True):
            text.set_color(colour)


def _span(text: Text, across: bool, dpi: float) -> tuple[float, float]:
    """Return a label's range along its axis, in pixels; for a rotated label, the range that others must avoid."""
    box, angle = text.get_window_extent(), math.radians(text.get_rotation())
    if not angle:
        return (box.x0, box.x1) if across else (box.y0, box.y1)
    middle = float(text.get_transform().transform(text.get_position())[0])
    half = 0.55 * float(text.get_fontsize()) * dpi / 72 / math.sin(angle)
    return middle - half, middle + half


def _clip(label: str) -> str:
    label = label.translate(REPLACEMENTS)
    return label if len(label) <= 14 else label[:13] + "…"


def blank(size: tuple[float, float], labels: Sequence[str], lang: str | None = None) -> Figure:
    """Return an empty figure with fonts for these labels; warn if there is none for Chinese."""
    from matplotlib.figure import Figure

    families = ["DejaVu Sans"]
    if any(re.search("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]", label) for label in labels) or language(lang) == "zh":
        font = cjk_font()
        if font is None:
            warnings.warn(
                Notice(
                    "there is no font with Chinese characters here, so they show as boxes. Install any, or this one (17 "
                    "MB), then draw again:\n  {command}",
                    command=pip_install(FONT_PACKAGE),
                ),
                stacklevel=3,
            )
        else:
            families = [font, "DejaVu Sans"]
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    figure.set_label(",".join(families))  # `save` reads this; rcParams would affect other figures
    return figure


def cjk_font() -> str | None:
    """Return the name of a font with Chinese characters: a known one, that of the extra `fonts` or any other; or None.

    Matplotlib caches its font list on its first run, so this also looks for newer fonts. A failure isn't cached: a font
    installed after the warning is used at the next call.

    >>> cjk_font() is None or isinstance(cjk_font(), str)
    True
    """
    from matplotlib import font_manager

    if name := _listed_cjk_font():
        return name
    importlib.invalidate_caches()  # it may have been installed after this process started
    package = importlib.util.find_spec(FONT_PACKAGE.replace("-", "_"))
    folders = (package and package.submodule_search_locations) or []
    listed = {font.fname for font in font_manager.fontManager.ttflist}
    for file in [*font_manager.findSystemFonts(folders), *sorted(font_manager.findSystemFonts())]:
        if file not in listed:
            with contextlib.suppress(Exception):  # not a font, or of a format that matplotlib can't read
                font_manager.fontManager.addfont(file)
    return _listed_cjk_font() or next((name for name, file in _fonts() if _has_chinese(file)), None)


def _fonts() -> Iterator[tuple[str, str]]:
    """Yield name and file of each font in matplotlib's list that still exists."""
    from matplotlib import font_manager

    for font in font_manager.fontManager.ttflist:
        if Path(font.fname).exists():
            yield font.name, font.fname


def _listed_cjk_font() -> str | None:
    names = {name for name, _ in _fonts()}
    return next((name for name in CJK_FONTS if name in names), None)


@cache
def _has_chinese(file: str) -> bool:
    """True if a font has the characters of CHINESE. matplotlib's last-resort font has one glyph for all of them."""
    from matplotlib import ft2font

    try:
        font = ft2font.FT2Font(file)
        glyphs = {font.get_char_index(ord(character)) for character in CHINESE}
    except Exception:  # matplotlib can't read it
        return False
    return 0 not in glyphs and len(glyphs) == len(CHINESE)


def save(figure: Figure, path: str | Path | IO[bytes] | None) -> Figure:
    """Set the figure's fonts, remove labels that would touch, and write it to `path` unless that is None."""
    import matplotlib as mpl
    from matplotlib.text import Text

    families = str(figure.get_label()).split(",")

    def set_fonts() -> None:
        for text in figure.findobj(Text):
            text.set_fontfamily(families)

    with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # `blank` has warned
        set_fonts()
        _thin_labels(figure)
        set_fonts()  # of the new labels
        if path is not None:
            _write(figure, path)
    return figure


def _write(figure: Figure, path: str | Path | IO[bytes]) -> None:
    """Write to an open file, or atomically to a path; its suffix is the format (default: png)."""
    if not isinstance(path, str | Path):
        figure.savefig(path)
        return
    path = Path(path) if Path(path).suffix else Path(f"{path}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:])
