"""Matplotlib figures: any array, the steps of attention, a head, the heads of a layer or model, a head during training.

The suffix of `path` selects PNG, SVG or PDF. figure_canvas.py has the shared parts.

N queries, M keys, H heads, B batch.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from ..i18n import Message, Problem, _, say
from ..tracing.views.token_labels import PARTS, Tokens
from .figure_canvas import COLOURS, SIGNED, blank, label, paint, save, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from ..attention.oracle import Steps
    from ..mixers.mixer_maps import MixerHead
    from ..tracing.views.attention_maps import Head
    from ..tracing.views.traces import Trace

    Numbers = ArrayLike | Tensor

POOLED = 512  # cells per side of a pooled map
DENSE = 1 << 26  # maximum pairs of a mask that is shaded
MAX_MAPS = 256  # maps of a grid; more would take minutes and be too small to read
MAX_SMALL_LABELS = 24  # readable labels per side of a small map
MOMENTS = 8  # evaluations of a run, side by side
MAX_NUMBERED = 12  # cells per side with room for numbers


Names = Sequence[str] | Sequence[Sequence[str]] | None


class Scale(TypedDict, total=False):
    """Arguments of `paint` that map numbers to colours."""

    top: float | None
    bottom: float
    colours: str


def heatmap(
    weights: Numbers,
    queries: Names = None,
    keys: Names = None,
    *,
    allowed: ArrayLike | None = None,
    special: tuple[Sequence[bool], Sequence[bool]] | None = None,
    title: str | None = None,
    lang: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw attention weights with their tokens: a row per query, a column per key. Write to `path` unless it is None.

    One map (N, M), a grid of heads (H, N, M), or such a grid per batch item (B, H, N, M); NumPy, torch or lists. For a
    batch, `queries` and `keys` are one list for all items or a list per item; rows and columns without a name are
    padding and aren't drawn. Negative numbers have their own colours. −inf and cells that `allowed` (bool, broadcasts
    to the array) forbids are hatched. `special` marks the queries and the keys that are special tokens: their labels
    are grey.

    >>> figure = heatmap([[1.0, 0.0], [0.3, 0.7]], ["I", "sing"], lang="en")
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['I', 'sing']
    >>> both = heatmap(np.full((2, 3, 4, 4), 0.25), [["a", "b", "c", "d"], ["e", "f"]], lang="en")
    >>> [axes.get_title() for axes in both.axes]
    ['head 0', 'head 1', 'head 2', 'head 0', 'head 1', 'head 2']
    """
    queries, keys = (_names(side, what) for side, what in ((queries, "queries"), (keys, "keys")))
    table = _numbers(weights)
    if not 2 <= table.ndim <= 4 or 0 in table.shape:
        raise Problem(
            "the array is {shape}: give (queries, keys), (heads, queries, keys) or (batch, heads, queries, keys)",
            shape=table.shape,
        )
    visible = np.isfinite(table)
    if allowed is not None:
        try:
            visible = visible & np.broadcast_to(np.asarray(allowed, bool), table.shape)
        except ValueError:
            raise Problem(
                "allowed is {allowed} and the array is {shape}: give one True or False per cell, or what broadcasts to it",
                allowed=np.shape(allowed),
                shape=table.shape,
            ) from None
    if table.ndim > 2:
        return _grid(table, visible, queries, keys, special, title, lang, path)
    row_names, column_names = _side_names(queries, keys, table.shape)
    n, m = table.shape
    size = (min(max(0.32 * m + 1.6, 3.6), 13), min(max(0.32 * n + 1.4, 3.2), 13))
    figure = blank(size, [*(row_names or ()), *(column_names or ()), title or ""], lang)
    axes = figure.add_subplot()
    image = paint(axes, table, visible, **_scale(table))
    label(axes, row_names, column_names, special)
    axes.set_xlabel(say("is looked at (key)", lang))
    axes.set_ylabel(say("looks (query)", lang))
    if title:
        axes.set_title(title, fontsize=11, loc="left")
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02)
    return save(figure, path)


def _grid(
    table: np.ndarray,
    visible: np.ndarray,
    queries: Names,
    keys: Names,
    special: tuple[Sequence[bool], Sequence[bool]] | None,
    title: str | None,
    lang: str | None,
    path: str | Path | None,
) -> Figure:
    """Draw heads (H, N, M) side by side and batch items (B, H, N, M) below each other, with one scale."""
    batch = table if table.ndim == 4 else table[None]
    visible = visible.reshape(batch.shape)
    items, heads, n, m = batch.shape
    if items * heads > MAX_MAPS:
        raise Problem(
            "the array holds {maps} maps ({shape}) and a figure at most {most}: give some items or heads, as in "
            "weights[:2, :8]",
            maps=items * heads,
            shape=table.shape,
            most=MAX_MAPS,
        )
    pairs = [(_item_names(queries, i, items), _item_names(keys, i, items)) for i in range(items)]
    names = [_side_names(*pair, (n, m), padded=items > 1) for pair in pairs]
    grid_columns = min(heads, 4 if heads <= 16 else 8)
    grid_rows = -(-heads // grid_columns)
    all_names = [name for pair in names for side in pair for name in side or ()]
    figure = blank((3.1 * grid_columns, items * (3.1 * grid_rows + 0.4)), [*all_names, title or ""], lang)
    scale = _scale(batch)
    for i, part in enumerate(np.ravel(figure.subfigures(items, 1, squeeze=False))):
        row_names, column_names = names[i]
        rows, cols = n if row_names is None else len(row_names), m if column_names is None else len(column_names)
        labelled = max(rows, cols) <= MAX_SMALL_LABELS
        for h in range(heads):
            axes = part.add_subplot(grid_rows, grid_columns, h + 1)
            paint(axes, batch[i, h, :rows, :cols], visible[i, h, :rows, :cols], **scale)
            label(axes, row_names if labelled else None, column_names if labelled else None, special, small=True)
            axes.set_title(say("head {head}", lang, head=h), fontsize=9)
        item_title = [] if items == 1 else [say("item {item}", lang, item=i)]
        if heading := " · ".join([*([title] if title and i == 0 else []), *item_title]):
            part.suptitle(heading, x=0.01, ha="left")
    return save(figure, path)


def _numbers(array: Numbers) -> np.ndarray:
    """Return an array as float64, also from a torch tensor on any device."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().double()
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise Problem(
            "{name} is not a matrix of numbers: give rows of equal length that hold nothing but numbers",
            name=Message("the array"),
        ) from None


def _names(names: Names | Tokens, what: str) -> Names:
    """Return the names of a side; tokens of a trace by their labels."""
    if isinstance(names, Tokens):
        return names.shown
    if names is not None and not (hasattr(names, "__len__") and hasattr(names, "__iter__")):
        raise Problem(
            "{what} is a {type}: give a list with one name per row or column, or the tokens of a trace, as in  "
            "heatmap(trace.map(0, 0), trace.tokens())",
            what=what,
            type=type(names).__name__,
        )
    return names


def _side_names(
    queries: Any, keys: Any, shape: tuple[int, ...], *, padded: bool = False
) -> tuple[list[str] | None, list[str] | None]:
    """Return the names of rows and columns. In a square map, keys default to the queries' names.

    Raise if their number is wrong; `padded` allows fewer.
    """
    n, m = shape
    keys = queries if keys is None and n == m else keys
    for what, names, size in ((Message("queries"), queries, n), (Message("keys"), keys, m)):
        if names is not None and (len(names) > size or (len(names) < size and not padded)):
            raise Problem(
                "there are {given} names of {what} for {size}: give one each", given=len(names), what=what, size=size
            )
    return None if queries is None else list(queries), None if keys is None else list(keys)


def _item_names(names: Names, item: int, items: int) -> Sequence[str] | None:
    """Return the names of one item: its own list, else the shared one."""
    whole = [name for name in names or () if isinstance(name, str)]
    if names is None or len(whole) == len(names):
        return None if names is None else whole
    if len(names) != items:
        raise Problem(
            "names are given for {given} items and the array has {items}: give a list for each, or one for all",
            given=len(names),
            items=items,
        )
    return names[item]


def _scale(table: np.ndarray) -> Scale:
    """Return a blue scale from 0, or a symmetric red-blue scale if there are negative numbers."""
    finite = table[np.isfinite(table)]
    top = max(float(np.abs(finite).max(initial=0)), 1e-9)
    return {"top": top, "bottom": -top, "colours": SIGNED} if finite.min(initial=0) < 0 else {"top": top}


def _common(part: str, tables: Sequence[np.ndarray]) -> Scale:
    """Return one scale for all maps: 0 to 1 for attention, up to the largest absolute weight for mixers."""
    return _scale(np.concatenate([table.ravel() for table in tables])) if part == "mixers" else {}


def steps(
    done: Steps, *, head: int = 0, item: int = 0, lang: str | None = None, path: str | Path | IO[bytes] | None = None
) -> Figure:
    """Draw the steps of attention from left to right: scores, scaled and masked scores, weights.

    >>> from ..attention.oracle import steps as computed
    >>> figure = steps(computed([[1.0, 0.0], [0.0, 1.0]], names=["I", "sing"]), lang="en")
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['1  scores: q·kᵀ', '2  scaled: × 0.7071', '3  softmax: weights']
    """
    at = done.index(item, head)
    scores, masked, weights = done.scores[at], done.masked[at], done.weights[at]
    queries, keys = (done.names(axis, size) for axis, size in enumerate(scores.shape))
    hidden = bool(np.isneginf(masked).any())
    changes = ((_("capped"), done.softcap is not None), (_("+ bias"), done.bias is not None), (_("masked"), hidden))
    suffix = "".join(f", {say(change, lang)}" for change, applies in changes if applies)
    titles = (
        say("1  scores: q·kᵀ", lang),
        say("2  scaled: × {scale}", lang, scale=done.scale) + suffix,
        say("3  softmax: weights", lang),
    )
    n, m = scores.shape
    side = (min(max(0.5 * m + 0.6, 2.8), 8), min(max(0.5 * n + 1.2, 2.8), 9))
    figure = blank((3 * side[0] + 1.2, side[1]), [*queries, *keys], lang)
    tables = (scores, masked, weights)
    for number, (table, title) in enumerate(zip(tables, titles, strict=True)):
        visible = np.isfinite(scores if number == 0 else masked)
        axes = figure.add_subplot(1, 3, number + 1)
        image = paint(axes, table, visible, **_scale(table))
        label(axes, queries if number == 0 else None, keys)
        if max(n, m) <= MAX_NUMBERED:
            write(axes, np.where(visible, table, np.nan), image)
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlabel(say("is looked at (key)", lang))
    figure.axes[0].set_ylabel(say("looks (query)", lang))
    return save(figure, path)


def steps_html(done: Steps) -> str:
    """Return the figure of `steps` as an <img> element for notebooks.

    >>> from ..attention.oracle import steps as computed
    >>> steps_html(computed([[1.0, 0.0], [0.0, 1.0]]))[:32]
    '<img src="data:image/png;base64,'
    """
    drawn = io.BytesIO()
    steps(done, path=drawn)
    return f'<img src="data:image/png;base64,{base64.b64encode(drawn.getvalue()).decode()}" style="max-width: 100%">'


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
    """Draw one head by "characters", "words" or "tokens"; a long text is pooled to 512 cells per side.

    >>> from importlib.resources import files
    >>> from ..tracing import Trace
    >>> trace = Trace.load(str(files("qkv") / "demo" / "traces" / "cat-smollm2.safetensors"))
    >>> figure = head(trace, 13, 8, by="words", lang="en")
    >>> figure.axes[0].get_title(loc="left")
    'smollm2 · decoder 13.8'
    """
    from ..tracing.views.word_map import view

    part = part or trace.parts[0]
    queries, keys = (trace.tokens(part, batch, keys=side) for side in (False, True))
    title = f"{trace.model} · {say(PARTS[part], lang)} {layer}.{head}".strip(" ·")
    if max(len(queries), len(keys)) > POOLED:
        return _pooled(trace.head(layer, head, part, batch), title, lang, path)
    word_map = view(trace, layer, head, by, part=part, batch=batch)
    options: dict[str, Any] = dict(
        allowed=word_map.allowed, special=word_map.special, title=title, lang=lang, path=path
    )
    return heatmap(word_map.weights, *word_map.names, **options)


def _pooled(trace_head: Head | MixerHead, title: str, lang: str | None, path: str | Path | None) -> Figure:
    """Draw a pooled head; colours show the square root, since most weights are small."""
    from matplotlib.colors import PowerNorm

    table = trace_head.pooled(POOLED).numpy()
    cell_size = -(-trace_head.n // POOLED), -(-trace_head.m // POOLED)
    cell = say("each cell: the mean of {value} × {value2} weights", lang, value=cell_size[0], value2=cell_size[1])
    figure = blank((9, 8.4), [title], lang)
    axes = figure.add_subplot()
    cells: dict[str, Any] = dict(extent=(0, trace_head.m, trace_head.n, 0), aspect="auto", interpolation="nearest")
    top = max(float(np.abs(table).max(initial=0)), 1e-9)
    if table.min(initial=0) < 0:  # a mixer
        image = axes.imshow(table, cmap=SIGNED, vmin=-top, vmax=top, **cells)
    else:
        image = axes.imshow(table, cmap=COLOURS, norm=PowerNorm(0.5, 0, top), **cells)
    if trace_head.n * trace_head.m <= DENSE:
        hidden = _hidden(trace_head, cell_size)
        shade = np.zeros((*hidden.shape, 4))
        shade[hidden] = (0.894, 0.894, 0.894, 1)
        axes.imshow(shade, **cells)
    axes.set_xlabel(say("is looked at (number of the key)", lang))
    axes.set_ylabel(say("looks (number of the query)", lang))
    axes.set_title(f"{title} · {cell}", fontsize=11, loc="left")
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02)
    return save(figure, path)


def _hidden(trace_head: Head | MixerHead, cell_size: tuple[int, int]) -> np.ndarray:
    """Return which cells of a pooled map are fully masked, reading a few rows of the mask at a time."""
    starts = range(0, trace_head.m, cell_size[1])
    rows = []
    for first in range(0, trace_head.n, cell_size[0]):
        visible = trace_head.allowed(slice(first, first + cell_size[0])).any(0).numpy()
        rows.append(~np.logical_or.reduceat(visible, starts))
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
    """Draw all heads of a layer, side by side.

    >>> from importlib.resources import files
    >>> from ..tracing import Trace
    >>> trace = Trace.load(str(files("qkv") / "demo" / "traces" / "cat-smollm2.safetensors"))
    >>> len(layer(trace, 13, lang="en").axes)
    9
    """
    from ..tracing.views.word_map import view

    part = part or trace.parts[0]
    queries, keys = (trace.tokens(part, batch, keys=side) for side in (False, True))
    heads = trace.n_head(part, layer)
    columns = min(heads, 4)
    rows = -(-heads // columns)
    names = [text for side in (queries, keys) for text, _, _ in side.groups(by)]
    figure = blank((3.1 * columns, 3.1 * rows + 0.5), names, lang)
    small = max(len(queries), len(keys)) <= 256
    views = [view(trace, layer, number, by, part=part, batch=batch) for number in range(heads) if small]
    tables = [word_map.weights for word_map in views]
    tables += [trace.map(layer, number, bins=256, part=part, batch=batch) for number in range(heads) if not small]
    scale = _common(part, tables)
    for number, table in enumerate(tables):
        axes = figure.add_subplot(rows, columns, number + 1)
        paint(axes, table, views[number].allowed if small else None, **scale)
        if small and max(table.shape) <= MAX_SMALL_LABELS:
            label(axes, *views[number].names, views[number].special, small=True)
        else:
            label(axes, None, None)
        axes.set_title(f"{layer}.{number}", fontsize=9)
    where = say("layer {layer}", lang, layer=layer)
    figure.suptitle(f"{trace.model} · {say(PARTS[part], lang)} · {where}".strip(" ·"), x=0.01, ha="left")
    return save(figure, path)


def overview(
    trace: Trace,
    *,
    part: str | None = None,
    batch: int = 0,
    mark: Sequence[tuple[int, int]] = (),
    lang: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw a thumbnail of every head: layers downwards, heads across; `mark` frames (layer, head) pairs.

    >>> from importlib.resources import files
    >>> from ..tracing import Trace
    >>> trace = Trace.load(str(files("qkv") / "demo" / "traces" / "weather-opus-zh-en.safetensors"))
    >>> len(overview(trace, part="cross", mark=[(4, 2)], lang="en").axes)
    48
    """
    part = part or trace.parts[0]
    numbers = trace.layers(part)
    layers, heads = len(numbers), trace.n_head(part)
    figure = blank((0.8 * heads + 0.9, 0.8 * layers + 0.9), [], lang)
    figure.set_layout_engine("none")
    top = 1 - 0.5 / (0.8 * layers + 0.9)  # below the caption and the head numbers
    for i, number in enumerate(numbers):
        for j in range(trace.n_head(part, number)):
            axes = figure.add_axes(
                (0.06 + 0.93 * j / heads, top * (1 - (i + 1) / layers) + 0.01, 0.88 / heads, 0.94 * top / layers)
            )
            table = trace.map(number, j, bins=48, pool="max" if part == "mixers" else "mean", part=part, batch=batch)
            shaded = np.sign(table) * np.abs(table) ** 0.5
            scale = _scale(shaded) if part == "mixers" else {"top": None}
            paint(axes, shaded, None, **scale)
            label(axes, None, None)
            marked = (number, j) in {(a, b) for a, b in mark}
            for side in axes.spines.values():
                side.set_edgecolor("#d9480f" if marked else "#bbbbbb")
                side.set_linewidth(2.2 if marked else 0.5)
            if j == 0:
                axes.set_ylabel(str(number), rotation=0, ha="right", va="center", fontsize=8)
            if i == 0:
                axes.set_title(str(j), fontsize=8, pad=3)
    figure.text(0.01, 0.995, say("layer ↓  head →", lang), fontsize=8, va="top")
    return save(figure, path)


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
    """Draw one head at up to eight evaluations of a run, evenly spaced, from left to right.

    >>> from ..model import Config, Transformer
    >>> from ..tracing import trace
    >>> model = Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2))
    >>> len(growth([trace(model, [3, 1, 4]) for _ in range(3)], 0, 1, lang="en").axes)
    3
    """
    from ..tracing.views.word_map import view

    part = part or traces[0].parts[0]
    indices = np.linspace(0, len(traces) - 1, min(len(traces), MOMENTS)).round().astype(int)
    selected = [traces[i] for i in indices]
    names = [text for side in (False, True) for text, _, _ in selected[-1].tokens(part, keys=side).groups(by)]
    figure = blank((2.6 * len(selected), 3.4), names, lang)
    views = [view(trace, layer, head, by, part=part) for trace in selected]
    scale = _common(part, [word_map.weights for word_map in views])
    for number, (trace, word_map) in enumerate(zip(selected, views, strict=True)):
        axes = figure.add_subplot(1, len(selected), number + 1)
        queries, keys = word_map.names
        paint(axes, word_map.weights, word_map.allowed, **scale)
        label(axes, queries if number == 0 or part == "cross" else None, keys, word_map.special, small=True)
        step = trace.more.get("step", "")
        axes.set_title(say("step {step}", lang, step=step), fontsize=9)
    title = f"{traces[-1].model} · {say(PARTS[part], lang)} {layer}.{head}".strip(" ·")
    if len(selected) < len(traces):
        title += " · " + say("{n} of {all} evaluations", lang, n=len(selected), all=len(traces))
    figure.suptitle(title, x=0.01, ha="left")
    return save(figure, path)
