"""Interactive figures, each with a static version for print and for readers without scripts.

A chapter's script defines them as variables; a page inserts them with `@figure name Caption.` A figure is one of:

    Look(trace, 13, 8)                 a head of a trace, as the page of `qkv see` shows it
    Machine(["I", "love"], q=…)        editable numbers (qkv.draw.head_machine), or a similar class of another module
    a matplotlib figure, or a function lang → figure: a picture

An interactive figure is a file in figures/, shown in a frame, so that its styles and the book's are independent.
"""

from __future__ import annotations

import html
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from qkv.draw import page, plots
from qkv.draw.figure_canvas import save
from qkv.tracing.views.demo_traces import DEMOS
from qkv.tracing.views.traces import Trace


@dataclass(frozen=True)
class Look:
    """One head of a trace: `show` are elements of the page (overview, map, lines, steps); `query` is the chosen row."""

    trace: Trace
    layer: int
    head: int
    show: tuple[str, ...] = ("map",)
    part: str | None = None
    focus: tuple[int | str, int | str] | None = None
    layers: tuple[int, ...] | None = None
    by: str = "characters"

    def html(self) -> str:
        """Return the interactive figure."""
        part = self.part or self.trace.parts[0]
        layers = self.layers or (self.layer,)
        first = (part, self.layer, self.head)
        return page.html(
            self.trace, layers=layers, focus=self.focus, first=first, by=self.by, show=self.show, limit=2_000_000
        )

    def picture(self) -> Figure:
        """Return the static figure."""
        return plots.head(self.trace, self.layer, self.head, part=self.part)


@dataclass
class SiteFiles:
    """Files of the site by path; each is created once."""

    files: dict[str, bytes] = field(default_factory=dict)

    def put(self, name: str, make: Callable[[], bytes]) -> None:
        if name not in self.files:
            self.files[name] = make()


def embed(figure_object: Any, name: str, caption: str, lang: str, up: str, site_files: SiteFiles) -> str:
    """Return the HTML of a figure; `up` is the relative path from the page to the site's root."""
    if callable(figure_object):
        figure_object, name = figure_object(lang), f"{name}.{lang}"
    alt = html.escape(caption, quote=True)
    if isinstance(figure_object, Figure):
        site_files.put(f"figures/{name}.png", lambda: _png(figure_object))
        body = f'<img src="{up}figures/{name}.png" alt="{alt}" loading="lazy">'
    else:
        site_files.put(f"figures/{name}.html", lambda: _live(figure_object).encode())
        frame = f'<iframe data-src="{up}figures/{name}.html#lang={lang}" title="{alt}"></iframe>'  # book.js opens it
        body = f'{frame}<div class="still">{_still(figure_object, name, alt, lang, up, site_files)}</div>'
    return f'<figure class="qkv">{body}<figcaption>{html.escape(caption)}</figcaption></figure>'


def _still(figure_object: Any, name: str, alt: str, lang: str, up: str, site_files: SiteFiles) -> str:
    if isinstance(figure_object, Look):
        site_files.put(f"figures/{name}.png", lambda: _png(figure_object.picture()))
        return f'<img src="{up}figures/{name}.png" alt="{alt}" loading="lazy">'
    return str(_module_of(figure_object).table_html(figure_object, lang))


def _live(figure_object: Any) -> str:
    return (
        figure_object.html() if isinstance(figure_object, Look) else str(_module_of(figure_object).html(figure_object))
    )


def _module_of(figure_object: Any) -> Any:
    """Return the module of a figure's class, which has `html` (interactive) and `table_html` (static)."""
    return sys.modules[type(figure_object).__module__]


def _png(figure: Figure) -> bytes:
    written = io.BytesIO()
    save(figure, written)
    return written.getvalue()


def demo(name: str) -> Trace:
    """Return a trace of a real model that ships with qkv: cat-smollm2, animal-smollm2, cat-minilm, weather-opus-zh-en, …"""
    return Trace.load(DEMOS / f"{name}.safetensors")
