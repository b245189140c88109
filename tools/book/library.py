"""The figure of the first page: a librarian matches a question with the spines of books and hands out their contents.

The shares are softmax(q·k/√d). Hovering over a question, or focusing it with Tab, lights each book by its share.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

WORDS = {
    "en": {
        "asked": "What is asked: the query",
        "spine": "What the spine says: the key",
        "inside": "What is in it: the value",
        "handed": "Handed to you",
        "and": ", ",
    },
    "zh": {
        "asked": "问什么：查询",
        "spine": "书脊上写着什么：键",
        "inside": "书里是什么：值",
        "handed": "交到你手里的",
        "and": "，",
    },
}


@dataclass(frozen=True, eq=False)
class Library:
    """Questions as rows of `q` and books as rows of `k`, with their texts; a book has a spine and a content."""

    lang: str
    questions: tuple[str, ...]
    books: tuple[tuple[str, str], ...]
    q: NDArray[np.float64]
    k: NDArray[np.float64]

    @property
    def shares(self) -> NDArray[np.float64]:
        """Return the attention weight of each book for each question."""
        powers = np.exp(self.q @ self.k.T / np.sqrt(self.q.shape[1]))
        return powers / powers.sum(-1, keepdims=True)


def html(library: Library) -> str:
    """Return an HTML page, to show in a frame."""
    buttons = "".join(
        f'<button type="button" aria-pressed="{"true" if not at else "false"}">{escape(question)}</button>'
        for at, question in enumerate(library.questions)
    )
    books = "".join(
        f'<li><b>{escape(spine)}</b><i>{escape(inside)}</i><div class="bar"></div><output></output></li>'
        for spine, inside in library.books
    )
    return PAGE.format(
        lang={"en": "en", "zh": "zh-CN"}[library.lang],
        style=STYLE,
        asks=buttons,
        books=books,
        script=SCRIPT.replace("TABLE", json.dumps(library.shares.round(4).tolist())),
        **{name: escape(text) for name, text in WORDS[library.lang].items()},
    )


def table_html(library: Library, lang: str) -> str:
    """Return a table for print and for readers without scripts: a row per question."""
    head = "".join(f"<th>{escape(spine)}</th>" for spine, _ in library.books)
    rows = "".join(
        f"<tr><th>{escape(question)}</th>{''.join(f'<td>{100 * share:.0f} %</td>' for share in row)}</tr>"
        for question, row in zip(library.questions, library.shares, strict=True)
    )
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"


PAGE = """<!doctype html>
<html lang="{lang}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>qkv</title>
<style>{style}</style></head><body>
<p>{asked}</p><div class="asks">{asks}</div>
<p>{spine} · {inside}</p><ul>{books}</ul>
<p><strong>{handed}</strong> <span id="handed" data-and="{and}" aria-live="polite"></span></p>
<script>{script}</script></body></html>
"""
STYLE = """
:root { color-scheme: light; --paper: #fff; --ink: #1d2127; --soft: #5b626d; --line: #d9d9d2; --lamp: 255 196 0; }
:root[data-theme="dark"] { color-scheme: dark; --paper: #0e1014; --ink: #e8e9ea; --soft: #a2a8b2; --line: #343a45; --lamp: 255 190 60; }
body { margin: 0; padding: 2px; background: var(--paper); color: var(--ink); font: 15px/1.4 system-ui, "Noto Sans CJK SC", sans-serif; }
p { margin: 0.5rem 0 0.3rem; color: var(--soft); font-size: 13px; }
.asks { display: flex; flex-wrap: wrap; gap: 0.4rem; }
button { font: inherit; color: inherit; background: none; border: 1px solid var(--line); border-radius: 8px; padding: 0.3rem 0.7rem; cursor: pointer; }
button[aria-pressed="true"] { border-color: var(--ink); box-shadow: inset 0 0 0 1px var(--ink); }
ul { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 0.6rem; list-style: none; margin: 0; padding: 0; }
li { display: grid; gap: 0.2rem; padding: 0.6rem 0.7rem; border: 1px solid var(--line); border-left-width: 0.5rem; border-radius: 4px 8px 8px 4px;
  background: rgb(var(--lamp) / calc(var(--share, 0) * 0.55)); box-shadow: 0 0 calc(var(--share, 0) * 28px) rgb(var(--lamp) / calc(var(--share, 0) * 0.7)); transition: background 0.25s, box-shadow 0.25s; }
li i { font-style: normal; font-size: 13px; color: var(--soft); }
.bar { height: 4px; border-radius: 2px; background: linear-gradient(90deg, var(--ink) calc(var(--share, 0) * 100%), var(--line) 0); }
output { font-variant-numeric: tabular-nums; }
strong, #handed { color: var(--ink); }
@media (prefers-reduced-motion: reduce) { li { transition: none; } }
"""
SCRIPT = """
const shares = TABLE, root = document.documentElement;
const asks = [...document.querySelectorAll("button")], books = [...document.querySelectorAll("li")], handed = document.getElementById("handed");
function ask(at) {
  asks.forEach((one, i) => one.setAttribute("aria-pressed", String(i === at)));
  books.forEach((book, i) => {
    book.style.setProperty("--share", shares[at][i]);
    book.querySelector("output").textContent = `${Math.round(100 * shares[at][i])} %`;
  });
  const said = books.map((book, i) => [shares[at][i], book.querySelector("i").textContent]).sort((a, b) => b[0] - a[0]);
  handed.textContent = said.map(([share, text]) => `${Math.round(100 * share)} % ${text}`).join(handed.dataset.and);
}
asks.forEach((one, at) => ["mouseenter", "focus", "click"].forEach((event) => one.addEventListener(event, () => ask(at))));
addEventListener("message", ({ source, data }) => {
  if (source === parent && data?.qkv === "theme") root.dataset.theme = data.theme === "dark" ? "dark" : "light";
});
const asked = new URLSearchParams(location.hash.slice(1)).get("theme");
root.dataset.theme = asked === "dark" || (!asked && matchMedia("(prefers-color-scheme: dark)").matches) ? "dark" : "light";
ask(0);
root.dataset.ready = "";
if (parent !== window)
  new ResizeObserver(() => parent.postMessage({ qkv: "height", height: Math.ceil(root.getBoundingClientRect().height) }, "*")).observe(root);
"""
