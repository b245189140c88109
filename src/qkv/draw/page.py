"""One offline HTML file to look into a trace: it carries q, k and v (and a mixer's decays), and computes every map itself.

    page(trace, "attention.html", focus=("it", "cat"))

Size grows with n, never with n², and stays within LIMIT at any length: carry.py decides what fits, and the page says which
layers are whole and which are there as an overview only.

The page makes no request: its own policy forbids any. The elements are the ES modules in static/, put into one script.
"""

from __future__ import annotations

import base64
import hashlib
import html as escaping
import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from ..tracing.survey import Progress
from ..tracing.traces import Trace
from ..words import LANGUAGES, _, language, say, translated
from .carry import Opening, carry, text_of

Told = Callable[[dict[str, list[int]]], None]  # part → the layers that are carried whole
LIMIT = 36_000_000  # bytes of a page
NOTEBOOK = 8_000_000  # … of one inside a notebook, which keeps it in its file
# In the order that a reader, and the one script, needs them.
MODULES = "words dom state data attention mixing heads view colour top overview lines derivation steps heat labels controls map main".split()


def page(
    trace: Trace,
    path: str | Path,
    *,
    title: str | None = None,
    layers: Sequence[int] | None = None,
    focus: tuple[int | str, int | str] | None = None,
    lang: str | None = None,
    progress: Progress | None = None,
    told: Told | None = None,
    first: Opening | None = None,
    by: str = "characters",
) -> Path:
    """Write the page of a trace; gives where.

    `layers`: those to carry whole where not all fit. `focus`: two words, the heads that link them come first. `lang`: "en"
    or "zh"; else the reader's browser decides. `progress` is told how many heads are done, of how many, and `told` which
    layers of each part the page carries whole. `first`: the head that it opens at, ("decoder", 13, 8). `by`: what its rows
    and columns are at first, "characters", "tokens" or "words".

    >>> from tempfile import TemporaryDirectory
    >>> from ..model import Config, Transformer
    >>> from ..tracing import trace
    >>> made = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4], name="tiny")
    >>> with TemporaryDirectory() as folder:
    ...     print(page(made, Path(folder, "attention.html")).name)
    attention.html
    """
    path = Path(path)
    made = html(
        trace, title=title, layers=layers, focus=focus, lang=lang, progress=progress, told=told, first=first, by=by
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made, encoding="utf-8")
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
    told: Told | None = None,
    first: Opening | None = None,
    by: str = "characters",
) -> str:
    """The same as a text, of at most `limit` bytes.

    >>> from ..model import Config, Transformer
    >>> from ..tracing import trace
    >>> made = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4], name="tiny")
    >>> html(made).splitlines()[0]
    '<!doctype html>'
    """
    spoken = None if lang is None else language(lang)
    shell = _shell(title or trace.model or say("Attention", spoken or "en"), spoken or "en", trace)
    carried = carry(trace, limit - len("".join(shell).encode()), layers, focus, spoken, progress, first, by)
    if told is not None:
        told(carried.whole)
    header = json.dumps(carried.header, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    blocks = (f'<script type="text/plain" id="qkv-{name}">{text}</script>\n' for name, text in carried.blocks.items())
    head, script = shell
    # The script stands before the numbers and doesn't wait for them: the page is drawn while the file is being read.
    about = f'<script type="application/json" id="qkv-header">{header}</script>\n'
    return head + about + script + "".join(blocks) + "</body>\n</html>\n"


def notebook_html(trace: Trace, *, height: int = 760, limit: int = NOTEBOOK) -> str:
    """The page inside a frame of its own, as notebooks show it: what it says can't touch the notebook.

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


@cache
def _script() -> str:
    """The modules as one: they name each other's things as they are, so imports and exports only have to go."""
    pieces = []
    for name in MODULES:
        source = (files(__package__) / "static" / f"{name}.js").read_text(encoding="utf-8")
        source = re.sub(r"^import [^;]*;\n", "", source, flags=re.MULTILINE)
        pieces.append(re.sub(r"^export ", "", source, flags=re.MULTILINE))
    script = "\n".join(pieces)
    return _safe(script.replace("const CATALOGUES = {};", f"const CATALOGUES = {_catalogues(script)};"))


def _catalogues(script: str) -> str:
    """What the modules say, in every language there is, as JSON."""
    strings = {json.loads(text) for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', script)}
    said = {lang: {text: translated(text, lang) for text in sorted(strings)} for lang in LANGUAGES if lang != "en"}
    changed = {lang: {text: there for text, there in each.items() if there != text} for lang, each in said.items()}
    return json.dumps(changed, ensure_ascii=False)


@cache
def _style() -> str:
    return (files(__package__) / "static" / "style.css").read_text(encoding="utf-8")


def _safe(script: str) -> str:
    return re.sub("</(script)", r"<\\/\1", script, flags=re.IGNORECASE)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _tag(lang: str) -> str:
    """A language as HTML names it: fonts go by it."""
    return "zh-CN" if lang == "zh" else lang


def _shell(title: str, lang: str, trace: Trace) -> tuple[str, str]:
    """What stands before and after the data. Only the scripts written here may run, and nothing may be fetched."""
    main = _script()
    old = _safe("""const able = "DecompressionStream" in window;
document.getElementById(able ? "qkv-opening" : "qkv-old").hidden = false;""")
    policy = f"default-src 'none'; script-src {_hash(main)} {_hash(old)}; style-src 'unsafe-inline'; img-src data:"
    opening = escaping.escape(say("opening…", lang))
    old_browser = _(
        "This browser is too old to unpack what the page carries: please open it in a newer one (from 2023 on)."
    )
    no_scripts = _("This page computes its pictures itself: please allow scripts. It fetches nothing.")
    told, off = (
        "<br>".join(f'<span lang="{_tag(name)}">{escaping.escape(say(sentence, name))}</span>' for name in LANGUAGES)
        for sentence in (old_browser, no_scripts)
    )
    text = escaping.escape(text_of(trace))
    head = f"""<!doctype html>
<html lang="{_tag(lang)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="qkv">
<link rel="icon" href="data:,">
<title>{escaping.escape(title)}</title>
<style>
{_style()}</style>
</head>
<body>
<div id="qkv-still" class="still"><h1><bdi>{escaping.escape(title)}</bdi></h1><blockquote dir="auto">{text}</blockquote>
<p id="qkv-opening" class="facts" hidden>{opening}</p></div>
<p id="qkv-old" hidden>{told}</p>
<noscript><p>{off}</p></noscript>
<script>{old}</script>
"""
    return head, f'<script type="module" async>{main}</script>\n'
