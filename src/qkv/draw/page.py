"""An offline HTML page of a trace: it contains q, k and v (and a mixer's decays) and computes every map itself.

    page(trace, "attention.html", focus=("it", "cat"))
    page(trace, "head.html", show=("map", "lines"), first=("decoder", 13, 8), lang="en")    a figure: one head, small

Its size grows with n, not n², and never exceeds LIMIT: page_data.py selects what fits, and the page lists the layers
that are complete and those that are only in the overview.

The page makes no request; its content security policy forbids it (page_shell.py). The address stores the view:
`attention.html#layer=13&head=8&query=7` opens there.
"""

from __future__ import annotations

import html as escaping
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..disk.atomic_files import write_file
from ..i18n import Problem, _, all_of, language, say, unknown
from ..terminal.screen import plain
from ..tracing.study.survey import Progress
from ..tracing.views.traces import Trace, no_layer
from .page_data import Opening, build_page_data, text_of
from .page_shell import in_every_language, shell

OnCarried = Callable[[dict[str, list[int]]], None]  # part → the complete layers
LIMIT = 36_000_000  # maximum bytes of a page
NOTEBOOK = 8_000_000  # … inside a notebook, which stores it in its file
# The pieces of a page in reading order, and the modules of web/ that draw them.
MODULES = {"overview": "map/overview", "map": "map/map", "lines": "map/lines", "steps": "steps/steps"}
PIECES = tuple(MODULES)
SUPPORT_CHECK = """const able = "DecompressionStream" in window;
document.getElementById(able ? "qkv-opening" : "qkv-old").hidden = false;"""


def page(
    trace: Trace,
    path: str | Path,
    *,
    title: str | None = None,
    layers: Sequence[int] | None = None,
    focus: tuple[int | str, int | str] | None = None,
    lang: str | None = None,
    progress: Progress | None = None,
    told: OnCarried | None = None,
    first: Opening | None = None,
    by: str = "characters",
    show: Sequence[str] = PIECES,
) -> Path:
    """Write the page of a trace and return its path.

    `layers`: layers to include first if not all fit. `focus`: two words; the heads that link them are included next.
    `lang`: "en" or "zh", by default that of the browser. `progress` is called with the heads done and their total,
    `told` with the complete layers of each part. `first`: the head it opens at, as ("decoder", 13, 8). `by`: the
    initial unit of rows and columns, "characters", "tokens" or "words". `show`: its pieces, any of "overview", "map",
    "lines", "steps". Without the overview it is a figure for a text: no title, and only `layers` (or the layer of
    `first`).

    >>> from tempfile import TemporaryDirectory
    >>> from ..model import Config, Transformer
    >>> from ..tracing import trace
    >>> made = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4], name="tiny")
    >>> with TemporaryDirectory() as folder:
    ...     print(page(made, Path(folder, "attention.html")).name)
    attention.html
    """
    path = Path(path)
    choices: dict[str, Any] = dict(title=title, layers=layers, focus=focus, lang=lang, first=first, by=by, show=show)
    content = html(trace, progress=progress, told=told, **choices)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content)
    return path


def html(
    trace: Trace,
    *,
    title: str | None = None,
    layers: Sequence[int] | None = None,
    focus: tuple[int | str, int | str] | None = None,
    lang: str | None = None,
    limit: int = LIMIT,
    progress: Progress | None = None,
    told: OnCarried | None = None,
    first: Opening | None = None,
    by: str = "characters",
    show: Sequence[str] = PIECES,
) -> str:
    """Return the page as a string of at most `limit` bytes.

    >>> from ..model import Config, Transformer
    >>> from ..tracing import trace
    >>> made = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4], name="tiny")
    >>> html(made).splitlines()[0]
    '<!doctype html>'
    """
    lang = None if lang is None else language(lang)
    pieces = _ordered_pieces(show)
    is_figure = "overview" not in pieces
    trace = _select_layers(trace, layers, first) if is_figure else trace
    title = title or trace.model or say("Attention", lang or "en")

    def build_shell(header: Mapping[str, object], blocks: dict[str, str]) -> str:
        return shell(
            title,
            lang or "en",
            *([] if is_figure else ["page/page_header"]),
            *(MODULES[name] for name in pieces),
            *([] if is_figure else ["map/map_export"]),
            "page/page",
            header=header,
            blocks=blocks,
            placeholder=_placeholder(title, lang or "en", trace, is_figure),
            first_script=SUPPORT_CHECK,
        )

    data = build_page_data(trace, limit - len(build_shell({}, {}).encode()), layers, focus, lang, progress, first, by)
    if told is not None:
        told(data.whole)
    return build_shell(data.header | {"show": pieces}, data.blocks)


def notebook_html(trace: Trace, *, height: int = 760, limit: int = NOTEBOOK) -> str:
    """Return the page in a sandboxed iframe for notebooks.

    >>> from ..model import Config, Transformer
    >>> from ..tracing import trace
    >>> made = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4], name="tiny")
    >>> notebook_html(made).startswith("<iframe srcdoc=")
    True
    """
    inside = escaping.escape(html(trace, limit=limit), quote=True)
    return (
        f'<iframe srcdoc="{inside}" title="{escaping.escape(trace.model or "qkv")}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {height}px; border: 0"></iframe>'
    )


def _ordered_pieces(show: Sequence[str]) -> list[str]:
    """Return the pieces in reading order.

    >>> _ordered_pieces(("lines", "map"))
    ['map', 'lines']
    """
    for name in show:
        if name not in PIECES:
            raise unknown("show", name, PIECES)
    if not show:
        raise Problem("show is empty: give one or more of {pieces}", pieces=all_of(PIECES))
    return [name for name in PIECES if name in show]


def _select_layers(trace: Trace, layers: Sequence[int] | None, first: Opening | None) -> Trace:
    """Return the trace with only these layers and that of `first`, for a small figure."""
    selected = {*(layers or ()), *([] if first is None else [first[1]])}
    if not selected:
        return trace
    parts = trace.parts if first is None or first[0] not in trace.parts else [first[0]]
    numbers = {part: tuple(layer for layer in trace.layers(part) if layer in selected) for part in parts}
    for layer in sorted(selected):
        if not any(layer in each for each in numbers.values()):
            raise no_layer(layer, tuple(sorted({layer for part in parts for layer in trace.layers(part)})))
    numbers = {part: each for part, each in numbers.items() if each}
    calls = {part: [trace.call(layer, part) for layer in each] for part, each in numbers.items()}
    return replace(trace, calls=calls, numbers=numbers)


def _placeholder(title: str, lang: str, trace: Trace, figure: bool) -> str:
    """Return the HTML shown until the script has read the numbers, with a message for browsers that can't."""
    name, text = escaping.escape(plain(title)), escaping.escape(plain(text_of(trace)))
    opening = f'<p id="qkv-opening" class="facts" hidden>{escaping.escape(say("opening…", lang))}</p>'
    heading = "" if figure else f'<h1><bdi>{name}</bdi></h1><blockquote dir="auto">{text}</blockquote>\n'
    old = _("This browser is too old to unpack what the page carries: please open it in a newer one (from 2023 on).")
    return f"""<div id="qkv-still" class="still">{heading}{opening}</div>
<p id="qkv-old" hidden>{in_every_language(old)}</p>
"""
