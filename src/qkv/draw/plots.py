"""Figures by matplotlib: one head, all heads of a layer, all heads of a model, an alignment; PNG, SVG or PDF by the name.

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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..tracing.tokens import PARTS
from ..words import Message, Notice, Problem, language, pip_install, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from ..tracing.maps import Head
    from ..tracing.traces import Trace

COLOURS = "Blues"
GREY = "#767676"  # special tokens: the lightest that reads well on white
MOST_LABELS = 64
APART = 2  # pixels between two labels, at least
POOLED = 512  # cells along each side of a long text's map
DENSE = 1 << 26  # pairs of a mask that are looked at to shade what it hides
DRAWN = str.maketrans({"␍": "↵"})  # a sign that fonts of figures lack
# Fonts with 汉字 that systems carry, those drawn for simplified Chinese first. Noto's collections hold one face for each
# place, of which older matplotlibs know only the first, JP: it has all characters too.
PLACES = ("SC", "CN", "TC", "HK", "TW", "JP", "KR")
CJK_FONTS = (
    *(f"{family}{place}" for place in PLACES for family in ("Noto Sans ", "Noto Sans CJK ", "Source Han Sans ")),
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "Arial Unicode MS",
    "Droid Sans Fallback",
    *(f"{family}{place}" for place in PLACES for family in ("Noto Serif ", "Noto Serif CJK ", "Source Han Serif ")),
)
CHINESE = "汉这层头译"  # a font that lacks one of these draws boxes in our figures
FONT_PACKAGE = "pylopdf-fonts-zh-cn"  # of the extra `fonts`


def heatmap(
    weights: ArrayLike,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    allowed: ArrayLike | None = None,
    special: tuple[Sequence[bool], Sequence[bool]] | None = None,
    title: str | None = None,
    lang: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Anyone's map with its tokens: rows ask, columns are looked at. Saved to `path` if there is one.

    `special` says which queries and which keys are special tokens: their labels are grey.
    """
    table = np.asarray(weights, dtype=np.float64)
    if table.ndim != 2:
        raise Problem("the map is {shape}: give one matrix, (queries, keys)", shape=table.shape)
    keys = queries if keys is None and table.shape[0] == table.shape[1] else keys
    for what, labels, size in ((Message("queries"), queries, table.shape[0]), (Message("keys"), keys, table.shape[1])):
        if labels is not None and len(labels) != size:
            raise Problem(
                "there are {given} names of {what} for {size}: give one each", given=len(labels), what=what, size=size
            )
    n, m = table.shape
    size = (min(max(0.32 * m + 1.6, 3.6), 13), min(max(0.32 * n + 1.4, 3.2), 13))
    figure = _figure(size, [*(queries or ()), *(keys or ()), title or ""], lang)
    axes = figure.add_subplot()
    image = _paint(axes, table, allowed, top=max(float(table.max(initial=0)), 1e-9))
    _label(axes, queries, keys, special)
    axes.set_xlabel(say("is looked at (key)", lang))
    axes.set_ylabel(say("looks (query)", lang))
    if title:
        axes.set_title(title, fontsize=11, loc="left")
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02)
    return _save(figure, path)


def head(
    trace: Trace,
    layer: int,
    head: int,
    *,
    by: str = "characters",
    part: str | None = None,
    batch: int = 0,
    lang: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """One head by "characters", "words" or "tokens"; a long text is pooled to 512 cells a side."""
    from ..tracing.view import view

    part = part or trace.parts[0]
    queries, keys = (trace.tokens(part, batch, keys=side) for side in (False, True))
    title = f"{trace.model} · {say(PARTS[part], lang)} {layer}.{head}".strip(" ·")
    if max(len(queries), len(keys)) > POOLED:
        return _pooled(trace, layer, head, part, batch, title, lang, path)
    seen = view(trace, layer, head, by, part=part, batch=batch)
    return heatmap(
        seen.weights, *seen.names, allowed=seen.allowed, special=seen.special, title=title, lang=lang, path=path
    )


def _pooled(
    trace: Trace,
    layer: int,
    head: int,
    part: str,
    batch: int,
    title: str,
    lang: str | None,
    path: str | Path | None,
) -> Figure:
    """A head of a long text: small weights are shown darker than they are (√), since most are small."""
    from matplotlib.colors import PowerNorm

    one = trace.head(layer, head, part, batch)
    table = one.pooled(POOLED).numpy()
    each = -(-one.n // POOLED), -(-one.m // POOLED)
    told = say("each cell: the mean of {value} × {value2} weights", lang, value=each[0], value2=each[1])
    figure = _figure((9, 8.4), [title], lang)
    axes = figure.add_subplot()
    cells: dict[str, Any] = dict(extent=(0, one.m, one.n, 0), aspect="auto", interpolation="nearest")
    norm = PowerNorm(0.5, 0, max(float(table.max(initial=0)), 1e-9))
    image = axes.imshow(table, cmap=COLOURS, norm=norm, **cells)
    if one.n * one.m <= DENSE:
        hidden = _hidden(one, each)
        shade = np.zeros((*hidden.shape, 4))
        shade[hidden] = (0.894, 0.894, 0.894, 1)
        axes.imshow(shade, **cells)
    axes.set_xlabel(say("is looked at (number of the key)", lang))
    axes.set_ylabel(say("looks (number of the query)", lang))
    axes.set_title(f"{title} · {told}", fontsize=11, loc="left")
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02)
    return _save(figure, path)


def _hidden(one: Head, each: tuple[int, int]) -> np.ndarray:
    """Which cells of a pooled map hold no pair that may attend; a few rows of the mask at a time."""
    starts = range(0, one.m, each[1])
    rows = []
    for first in range(0, one.n, each[0]):
        seen = one.allowed(slice(first, first + each[0])).any(0).numpy()
        rows.append(~np.logical_or.reduceat(seen, starts))
    return np.stack(rows)


def layer(
    trace: Trace,
    layer: int,
    *,
    by: str = "characters",
    part: str | None = None,
    batch: int = 0,
    lang: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """All heads of a layer, side by side."""
    from ..tracing.view import view

    part = part or trace.parts[0]
    queries, keys = (trace.tokens(part, batch, keys=side) for side in (False, True))
    heads = trace.n_head(part, layer)
    across = min(heads, 4)
    down = -(-heads // across)
    figure = _figure(
        (3.1 * across, 3.1 * down + 0.5), [text for side in (queries, keys) for text, _, _ in side.groups(by)], lang
    )
    for number in range(heads):
        axes = figure.add_subplot(down, across, number + 1)
        if max(len(queries), len(keys)) > 256:
            _paint(axes, trace.map(layer, number, bins=256, part=part, batch=batch), None)
            _label(axes, None, None)
        else:
            seen = view(trace, layer, number, by, part=part, batch=batch)
            few = max(seen.weights.shape) <= 24
            _paint(axes, seen.weights, seen.allowed)
            asking, asked = seen.names if few else (None, None)
            _label(axes, asking, asked, seen.special, small=True)
        axes.set_title(f"{layer}.{number}", fontsize=9)
    where = say("layer {layer}", lang, layer=layer)
    figure.suptitle(f"{trace.model} · {say(PARTS[part], lang)} · {where}".strip(" ·"), x=0.01, ha="left")
    return _save(figure, path)


def overview(
    trace: Trace,
    *,
    part: str | None = None,
    batch: int = 0,
    mark: Sequence[tuple[int, int]] = (),
    lang: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Every head of every layer as a thumbnail: layers downwards, heads across; `mark` frames some of them."""
    part = part or trace.parts[0]
    numbers = trace.layers(part)
    layers, heads = len(numbers), trace.n_head(part)
    figure = _figure((0.8 * heads + 0.9, 0.8 * layers + 0.9), [], lang)
    figure.set_layout_engine("none")
    top = 1 - 0.5 / (0.8 * layers + 0.9)  # what is left below the line of words and the heads' numbers
    for i, number in enumerate(numbers):
        for j in range(trace.n_head(part, number)):
            axes = figure.add_axes(
                (0.06 + 0.93 * j / heads, top * (1 - (i + 1) / layers) + 0.01, 0.88 / heads, 0.94 * top / layers)
            )
            table = trace.map(number, j, bins=48, part=part, batch=batch)
            axes.imshow(table**0.5, cmap=COLOURS, vmin=0, aspect="auto")
            axes.set_xticks([])
            axes.set_yticks([])
            chosen = (number, j) in {(a, b) for a, b in mark}
            for side in axes.spines.values():
                side.set_edgecolor("#d9480f" if chosen else "#bbbbbb")
                side.set_linewidth(2.2 if chosen else 0.5)
            if j == 0:
                axes.set_ylabel(str(number), rotation=0, ha="right", va="center", fontsize=8)
            if i == 0:
                axes.set_title(str(j), fontsize=8, pad=3)
    figure.text(0.01, 0.995, say("layer ↓  head →", lang), fontsize=8, va="top")
    return _save(figure, path)


def growth(
    traces: Sequence[Trace],
    layer: int,
    head: int,
    *,
    by: str = "characters",
    part: str | None = None,
    lang: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """One head at several moments of its training, from left to right."""
    from ..tracing.view import view

    part = part or traces[0].parts[0]
    chosen = traces if len(traces) <= 8 else [traces[i] for i in np.linspace(0, len(traces) - 1, 8).round().astype(int)]
    names = [text for side in (False, True) for text, _, _ in chosen[-1].tokens(part, keys=side).groups(by)]
    figure = _figure((2.6 * len(chosen), 3.4), names, lang)
    for number, trace in enumerate(chosen):
        axes = figure.add_subplot(1, len(chosen), number + 1)
        seen = view(trace, layer, head, by, part=part)
        queries, keys = seen.names
        _paint(axes, seen.weights, seen.allowed)
        _label(axes, queries if number == 0 or part == "cross" else None, keys, seen.special, small=True)
        step = trace.more.get("step", "")
        axes.set_title(say("step {step}", lang, step=step), fontsize=9)
    figure.suptitle(f"{traces[-1].model} · {say(PARTS[part], lang)} {layer}.{head}".strip(" ·"), x=0.01, ha="left")
    return _save(figure, path)


def _paint(axes: Axes, table: np.ndarray, allowed: ArrayLike | None, top: float = 1.0) -> Any:
    image = axes.imshow(table, cmap=COLOURS, vmin=0, vmax=top, aspect="auto", interpolation="nearest")
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


def _label(
    axes: Axes,
    queries: Sequence[str] | None,
    keys: Sequence[str] | None,
    special: tuple[Sequence[bool], Sequence[bool]] | None = None,
    *,
    small: bool = False,
) -> None:
    grey = special or ((), ())
    for labels, dimmed, axis, turned in ((keys, grey[1], axes.xaxis, True), (queries, grey[0], axes.yaxis, False)):
        if labels is None:
            axis.set_ticks([])
            continue
        every = -(-len(labels) // MOST_LABELS)
        axis.set_ticks(range(0, len(labels), every))
        axis.set_ticklabels([_clip(label) for label in labels[::every]], fontsize=6 if small else 9, parse_math=False)
        if turned and max(map(len, labels), default=0) > 2:
            for text in axis.get_ticklabels():  # each ends under its column
                text.set(rotation=60, ha="right", rotation_mode="anchor")
        for text, dim in zip(axis.get_ticklabels(), dimmed[::every], strict=False):
            text.set_color(GREY if dim else "black")


def _thin(figure: Figure) -> None:
    """Leave labels out, evenly, until none touches another: measured, since only the layout knows what room there is."""
    from matplotlib.ticker import FuncFormatter  # what `set_ticklabels` makes; other axes choose their own labels

    named = [
        axis
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        if isinstance(axis.get_major_formatter(), FuncFormatter) and len(axis.get_ticklocs()) > 1
    ]
    if not named:
        return
    figure.draw_without_rendering()  # lays it out
    for axis in named:
        places, texts = axis.get_ticklocs(), axis.get_ticklabels()
        spans = [_span(text, axis.axis_name == "x", figure.dpi) for text in texts]
        every = 1
        while any(b[0] < a[1] + APART and a[0] < b[1] + APART for a, b in pairwise(spans[::every])):
            every += 1
        if every == 1:
            continue
        kept = [(text.get_text(), text.get_color()) for text in texts[::every]]
        like = {
            name: texts[0].properties()[name]
            for name in ("fontsize", "rotation", "horizontalalignment", "rotation_mode")
        }
        axis.set_ticks(places[::every], [text for text, _ in kept], parse_math=False, **like)
        for text, (_, colour) in zip(axis.get_ticklabels(), kept, strict=True):
            text.set_color(colour)


def _span(text: Text, across: bool, dpi: float) -> tuple[float, float]:
    """From where to where a label reaches along its axis, in pixels; of a turned one, what it keeps others away from."""
    box, turned = text.get_window_extent(), math.radians(text.get_rotation())
    if not turned:
        return (box.x0, box.x1) if across else (box.y0, box.y1)
    middle = float(text.get_transform().transform(text.get_position())[0])
    half = 0.55 * float(text.get_fontsize()) * dpi / 72 / math.sin(turned)
    return middle - half, middle + half


def _clip(label: str) -> str:
    label = label.translate(DRAWN)
    return label if len(label) <= 14 else label[:13] + "…"


def _figure(size: tuple[float, float], labels: Sequence[str], lang: str | None = None) -> Figure:
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
    figure.set_label(",".join(families))  # what `_save` gives every text; other figures keep their own fonts
    return figure


def cjk_font() -> str | None:
    """The name of a font with 汉字: one known by name, that of the extra `fonts`, or any that has the characters.

    Matplotlib keeps a list of fonts from the first time it ran. So before giving up, look for those that came since, and
    never remember that there was none: who follows the advice and draws again should see it.
    """
    from matplotlib import font_manager

    if found := _known():
        return found
    importlib.invalidate_caches()  # it may have been installed since this process began
    package = importlib.util.find_spec(FONT_PACKAGE.replace("-", "_"))
    folders = (package and package.submodule_search_locations) or []
    listed = {font.fname for font in font_manager.fontManager.ttflist}
    for file in [*font_manager.findSystemFonts(folders), *sorted(font_manager.findSystemFonts())]:
        if file not in listed:
            with contextlib.suppress(Exception):  # a file that is no font, or one of a kind matplotlib can't read
                font_manager.fontManager.addfont(file)
    return _known() or next((name for name, file in _fonts() if _writes_chinese(file)), None)


def _fonts() -> Iterator[tuple[str, str]]:
    """Name and file of each font that matplotlib has in its list and that is still there."""
    from matplotlib import font_manager

    for font in font_manager.fontManager.ttflist:
        if Path(font.fname).exists():
            yield font.name, font.fname


def _known() -> str | None:
    names = {name for name, _ in _fonts()}
    return next((name for name in CJK_FONTS if name in names), None)


@cache
def _writes_chinese(file: str) -> bool:
    """Whether a font has the characters. One of last resort, which comes with matplotlib, has one sign for all of them."""
    from matplotlib import ft2font

    try:
        font = ft2font.FT2Font(file)
        signs = {font.get_char_index(ord(character)) for character in CHINESE}
    except Exception:  # of a kind matplotlib can't read
        return False
    return 0 not in signs and len(signs) == len(CHINESE)


def _save(figure: Figure, path: str | Path | None) -> Figure:
    import matplotlib as mpl
    from matplotlib.text import Text

    families = str(figure.get_label()).split(",")

    def dress() -> None:
        for text in figure.findobj(Text):
            text.set_fontfamily(families)

    with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # said already, once, in `_figure`
        dress()
        _thin(figure)
        dress()  # labels that were set anew
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path)
    return figure
