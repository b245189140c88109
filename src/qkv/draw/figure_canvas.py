"""What figures are drawn on: a page in fonts that can write its words, cells and what a mask hides, labels that fit.

Pairs that a mask hides are hatched, not just dark. Chinese labels use any CJK font that is installed, or the one that
comes with the extra `fonts`. No pyplot, so no window and no state: a figure is an object that can be saved.
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
GREY = "#767676"  # special tokens: the lightest that reads well on white
MAX_LABELS = 64
MIN_GAP = 2  # pixels between two labels, at least
REPLACEMENTS = str.maketrans({"␍": "↵"})  # a sign that fonts of figures lack
# Fonts with 汉字 that systems carry, those drawn for simplified Chinese first. Noto's collections hold one face for each
# place, of which older matplotlibs know only the first, JP: it has all characters too.
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
CHINESE = "汉这层头译"  # a font that lacks one of these draws boxes in our figures
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
    """A cell per number, from `bottom` to `top` (None: the largest there is); what isn't allowed is hatched."""
    image = axes.imshow(table, cmap=colours, vmin=bottom, vmax=top, aspect="auto", interpolation="nearest")
    if allowed is not None:
        hidden = ~np.broadcast_to(np.asarray(allowed, bool), table.shape)
        hatch = "////" if max(table.shape) <= 96 else None  # finer cells than hatching can show: plain grey
        for i, row in enumerate(hidden):
            edges = np.flatnonzero(np.diff(np.concatenate([[0], row, [0]])))
            runs = [(start - 0.5, stop - start) for start, stop in edges.reshape(-1, 2)]
            if runs:
                face = "none" if hatch else "#e4e4e4"
                axes.broken_barh(runs, (i - 0.5, 1), facecolor=face, edgecolor="#cccccc", hatch=hatch, linewidth=0)
    return image


def write(axes: Axes, table: np.ndarray, image: AxesImage) -> None:
    """The number in each cell, dark on light and light on dark; none where there is no number."""
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
    """Names along both sides, special tokens grey; none where there are none."""
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
            for text in axis.get_ticklabels():  # each ends under its column
                text.set(rotation=60, ha="right", rotation_mode="anchor")
        for text, dim in zip(axis.get_ticklabels(), special_flags[::every], strict=False):
            text.set_color(GREY if dim else "black")


def _thin_labels(figure: Figure) -> None:
    """Leave labels out, evenly, until none touches another: measured, since only the layout knows what room there is."""
    from matplotlib.ticker import FuncFormatter  # what `set_ticklabels` makes; other axes choose their own labels

    labelled = [
        axis
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        if isinstance(axis.get_major_formatter(), FuncFormatter) and len(axis.get_ticklocs()) > 1
    ]
    if not labelled:
        return
    figure.draw_without_rendering()  # lays it out
    for axis in labelled:
        ticks, texts = axis.get_ticklocs(), axis.get_ticklabels()
        spans = [_span(text, axis.axis_name == "x", figure.dpi) for text in texts]
        every = 1
        while any(b[0] < a[1] + MIN_GAP and a[0] < b[1] + MIN_GAP for a, b in pairwise(spans[::every])):
            every += 1
        if every == 1:
            continue
        labels = [(text.get_text(), text.get_color()) for text in texts[::every]]
        style = {
            name: texts[0].properties()[name]
            for name in ("fontsize", "rotation", "horizontalalignment", "rotation_mode")
        }
        axis.set_ticks(ticks[::every], [text for text, _ in labels], parse_math=False, **style)
        for text, (_, colour) in zip(axis.get_ticklabels(), labels, strict=True):
            text.set_color(colour)


def _span(text: Text, across: bool, dpi: float) -> tuple[float, float]:
    """From where to where a label reaches along its axis, in pixels; of a turned one, what it keeps others away from."""
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
    """An empty figure whose fonts can write these labels; says so once where there is none that can."""
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
    figure.set_label(",".join(families))  # what `save` gives every text; other figures keep their own fonts
    return figure


def cjk_font() -> str | None:
    """The name of a font with 汉字: one known by name, that of the extra `fonts`, or any that has the characters.

    Matplotlib keeps a list of fonts from the first time it ran. So before giving up, look for those that came since, and
    never remember that there was none: who follows the advice and draws again should see it.

    >>> cjk_font() is None or isinstance(cjk_font(), str)
    True
    """
    from matplotlib import font_manager

    if name := _listed_cjk_font():
        return name
    importlib.invalidate_caches()  # it may have been installed since this process began
    package = importlib.util.find_spec(FONT_PACKAGE.replace("-", "_"))
    folders = (package and package.submodule_search_locations) or []
    listed = {font.fname for font in font_manager.fontManager.ttflist}
    for file in [*font_manager.findSystemFonts(folders), *sorted(font_manager.findSystemFonts())]:
        if file not in listed:
            with contextlib.suppress(Exception):  # a file that is no font, or one of a kind matplotlib can't read
                font_manager.fontManager.addfont(file)
    return _listed_cjk_font() or next((name for name, file in _fonts() if _has_chinese(file)), None)


def _fonts() -> Iterator[tuple[str, str]]:
    """Name and file of each font that matplotlib has in its list and that is still there."""
    from matplotlib import font_manager

    for font in font_manager.fontManager.ttflist:
        if Path(font.fname).exists():
            yield font.name, font.fname


def _listed_cjk_font() -> str | None:
    names = {name for name, _ in _fonts()}
    return next((name for name in CJK_FONTS if name in names), None)


@cache
def _has_chinese(file: str) -> bool:
    """Whether a font has the characters. One of last resort, which comes with matplotlib, has one sign for all of them."""
    from matplotlib import ft2font

    try:
        font = ft2font.FT2Font(file)
        glyphs = {font.get_char_index(ord(character)) for character in CHINESE}
    except Exception:  # of a kind matplotlib can't read
        return False
    return 0 not in glyphs and len(glyphs) == len(CHINESE)


def save(figure: Figure, path: str | Path | IO[bytes] | None) -> Figure:
    """Dress every text in the figure's fonts, thin out labels that would touch, and write it where there is a place."""
    import matplotlib as mpl
    from matplotlib.text import Text

    families = str(figure.get_label()).split(",")

    def set_fonts() -> None:
        for text in figure.findobj(Text):
            text.set_fontfamily(families)

    with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # said already, once, in `blank`
        set_fonts()
        _thin_labels(figure)
        set_fonts()  # labels that were set anew
        if path is not None:
            _write(figure, path)
    return figure


def _write(figure: Figure, path: str | Path | IO[bytes]) -> None:
    """Write a figure to an open file, or atomically to a path, whose ending names the format (png if it has none)."""
    if not isinstance(path, str | Path):
        figure.savefig(path)
        return
    path = Path(path) if Path(path).suffix else Path(f"{path}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:])
