"""Attention from a caption's words to image patches: in a terminal, as a figure or as a page without scripts.

Each word's weights are divided by their maximum.
"""

from __future__ import annotations

import html as escaping
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..disk.atomic_files import write_file
from ..i18n import language, say
from ..terminal import text_grid
from .figure_canvas import blank, save
from .page_shell import tag
from .terminal_map import SHADES, colours, paper_of, room

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..tracing.study.caption_attention import Caption, CaptionWord

HALVES = " ▀▄█"  # a column of two pixels: 1 is the upper, 2 the lower
HEAT = "#d9480f"
STYLE = """:root { color-scheme: light dark; --paper: #fff; --ink: #222; }
@media (prefers-color-scheme: dark) { :root { --paper: #1b1b1b; --ink: #ddd; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem; background: var(--paper); color: var(--ink); }
.words { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; } figcaption { text-align: center; }
svg { width: 12rem; height: 6rem; border: 1px solid #8886; }"""


def terminal(pixels: np.ndarray, caption: Caption, *, colour: str | None = None, columns: int | None = None) -> str:
    """Return the picture once per word, side by side, with the attended patches as background colours.

    Without colours the patches are shades and the picture itself comes first.
    """
    colour = colours() if colour is None else colour
    panels = [[word.word, *_rows(pixels, word, colour)] for word in caption.words]
    if colour == "none":
        panels = [["", *("".join(HALVES[i] for i in row) for row in _half_blocks(pixels))], *panels]
    width = pixels.shape[1] + 2
    per_line = max(room(columns) // width, 1)
    lines = []
    for first in range(0, len(panels), per_line):
        for line in zip(*panels[first : first + per_line], strict=True):
            # Coloured rows have their width already; escape codes would be counted as characters.
            cells = (cell + "  " if "\x1b" in cell else text_grid.left(cell, width) for cell in line)
            lines.append("".join(cells).rstrip())
        lines.append("")
    return "\n".join(lines[:-1])


def _half_blocks(pixels: np.ndarray) -> list[list[int]]:
    """Return indices into HALVES: pixel pairs, one above the other; (rows / 2, columns)."""
    return [[int(a) + 2 * int(b) for a, b in zip(*pixels[i : i + 2], strict=True)] for i in range(0, len(pixels), 2)]


def _rows(pixels: np.ndarray, word: CaptionWord, colour: str) -> list[str]:
    heat = word.patches / max(float(word.patches.max()), 1e-30)
    if colour == "none":
        return ["".join(SHADES[min(int(share**0.5 * 5), 4)] * 2 for share in row) for row in heat]
    lines = []
    for halves, row in zip(_half_blocks(pixels), heat, strict=True):
        cells = [HALVES[a] + HALVES[b] for a, b in zip(halves[::2], halves[1::2], strict=True)]
        lines.append("".join(paper_of(share * 0.5, cell, colour) for share, cell in zip(row, cells, strict=True)))
    return lines


def figure(
    pixels: np.ndarray, captions: Sequence[Caption], *, lang: str | None = None, path: str | Path | None = None
) -> Figure:
    """Return a figure with a row per caption and a picture per word."""
    across = max(len(caption.words) for caption in captions)
    size = (2.0 * across + 0.4, 1.4 * len(captions) + 0.3)
    drawing = blank(size, [caption.text for caption in captions], lang)
    for i, caption in enumerate(captions):
        for j, word in enumerate(caption.words):
            axes = drawing.add_subplot(len(captions), across, i * across + j + 1)
            rows, columns = word.patches.shape
            extent = (0, columns, rows, 0)
            axes.imshow(pixels, cmap="Greys", vmin=0, vmax=1.6, interpolation="nearest", extent=extent)
            axes.imshow(word.patches, "Oranges", alpha=_opacity(word), vmin=0, interpolation="nearest", extent=extent)
            axes.set_title(word.word, fontsize=11)
            axes.set_xticks([])
            axes.set_yticks([])
    return save(drawing, path)


def _opacity(word: CaptionWord) -> np.ndarray:
    """Return the opacity of each patch's colour."""
    return 0.85 * np.sqrt(word.patches / max(float(word.patches.max()), 1e-30))


def page(
    pixels: np.ndarray, captions: Sequence[Caption], path: str | Path, *, title: str = "", lang: str | None = None
) -> Path:
    """Write an HTML file of SVG pictures, with each weight in its patch's tooltip; no scripts, no requests."""
    lang, path = language(lang), Path(path)
    heading = escaping.escape(title or say("A picture in words", lang))
    parts = [f"<h1>{heading}</h1>", f"<p>{escaping.escape(say('Darker patches: where the word looked.', lang))}</p>"]
    for caption in captions:
        parts.append(f'<h2 lang="{tag(caption.lang)}">{escaping.escape(caption.text)}</h2><div class="words">')
        parts += [
            f'<figure lang="{tag(caption.lang)}">{_svg(pixels, word)}<figcaption>{escaping.escape(word.word)}</figcaption></figure>'
            for word in caption.words
        ]
        parts.append("</div>")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(
        path,
        f'<!doctype html>\n<html lang="{tag(lang)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{heading}</title>\n'
        f"<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n",
    )
    return path


def _svg(pixels: np.ndarray, word: CaptionWord) -> str:
    ink = "".join(f"M{x} {y}h1v1h-1z" for y, x in np.argwhere(pixels))
    opacity = _opacity(word)
    boxes = "".join(
        f'<rect x="{2 * j}" y="{2 * i}" width="2" height="2" fill="{HEAT}" fill-opacity="{opacity[i, j]:.2f}">'
        f"<title>{i},{j}: {word.patches[i, j]:.3f}</title></rect>"
        for i, j in np.ndindex(*opacity.shape)
    )
    name = escaping.escape(word.word, quote=True)
    height, width = pixels.shape
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{name}"><path d="{ink}" fill="currentColor"/>{boxes}</svg>'
