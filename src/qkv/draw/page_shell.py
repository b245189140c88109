"""A self-contained HTML file: styles, script and translations are inline, and its security policy forbids all requests.

The custom elements are the ES modules in web/. The modules of a page and their imports are joined into one script in
dependency order. Only that script may run: the policy has its hash.
"""

from __future__ import annotations

import base64
import hashlib
import html as escaping
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ..i18n import LANGUAGES, _, language, say, translated
from ..terminal.screen import plain

IMPORT = re.compile(r'^import (?:[^;]*? from )?"(\.\.?/[\w./]+)\.js";\n', re.MULTILINE)
BUNDLED = re.compile(rf"{IMPORT.pattern}|^/\*\* @import .*\n|^export ", re.MULTILINE)  # only for separate files


def shell(
    title: str,
    lang: str,
    *modules: str,
    header: Mapping[str, Any],
    blocks: Mapping[str, str] | None = None,
    styles: Sequence[str] = ("core/style",),
    placeholder: str = "",
    first_script: str = "",
) -> str:
    """Return a page that runs these modules of web/ and contains `header` (JSON) and `blocks` (text by name).

    `placeholder` is shown until the script has started; `first_script` runs before everything else.

    >>> made = shell("<b>", "en", "core/words", header={"text": "</script>"})
    >>> made.splitlines()[0], "<title>&lt;b&gt;</title>" in made, made.count("</script>")
    ('<!doctype html>', True, 3)
    """
    main = script(*modules)
    hashes = f"{_hash(main)} {_hash(first_script)}"
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"
    header_json = json.dumps(header, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    texts = (f'<script type="text/plain" id="qkv-{name}">{text}</script>\n' for name, text in (blocks or {}).items())
    no_scripts = _("This page computes its pictures itself: please allow scripts. It fetches nothing.")
    # The script precedes the numbers, so the page is drawn while the file is still loading.
    return f"""<!doctype html>
<html lang="{tag(lang)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="qkv">
<link rel="icon" href="data:,">
<title>{escaping.escape(plain(title))}</title>
<style>
{"".join(map(style, styles))}</style>
</head>
<body>
{placeholder}<noscript><p>{in_every_language(no_scripts)}</p></noscript>
<script>{first_script}</script>
<script type="application/json" id="qkv-header">{header_json}</script>
<script type="module" async>{main}</script>
{"".join(texts)}</body>
</html>
"""


def figure_page(
    element: str, header: Mapping[str, Any], default_title: str, title: str | None, lang: str | None, *styles: str
) -> str:
    """Return a page with one interactive figure: `element` of web/steps draws it from `header`."""
    lang = None if lang is None else language(lang)
    module, name = f"steps/{element}", title or say(default_title, lang or "en")
    header, styles = {"element": element, "lang": lang, **header}, ("core/style", *styles, module)
    return shell(name, lang or "en", module, "page/figure", header=header, styles=styles)


@cache
def script(*modules: str) -> str:
    """Return modules and their imports as one script: no import has another name, so import and export are removed."""
    joined = "\n".join(BUNDLED.sub("", asset(f"{name}.js")) for name in in_order(*modules))
    joined = joined.replace("const CATALOGUES = {};", f"const CATALOGUES = {_catalogues(joined)};")
    return re.sub("</(script)", r"<\\/\1", joined, flags=re.IGNORECASE)


def in_order(*modules: str) -> list[str]:
    """Return these modules and all their imports in dependency order.

    >>> in_order("core/state", "core/dom", "map/lines")[:3]
    ['core/state', 'core/words', 'core/dom']
    """
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name not in ordered:
            for other in IMPORT.findall(asset(f"{name}.js")):
                visit(posixpath.normpath(posixpath.join(posixpath.dirname(name), other)))
            ordered.append(name)

    for name in modules:
        visit(name)
    return ordered


def in_every_language(sentence: str) -> str:
    """Return a sentence in every language, as HTML."""
    return "<br>".join(f'<span lang="{tag(name)}">{escaping.escape(say(sentence, name))}</span>' for name in LANGUAGES)


def tag(lang: str) -> str:
    """Return a language as an HTML language tag, which selects fonts."""
    return "zh-CN" if lang == "zh" else lang


def _catalogues(script: str) -> str:
    """Return the translations of a script's strings, by language, as JSON."""
    strings = {json.loads(text) for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', script)}
    catalogues: dict[str, dict[str, str]] = {lang: {} for lang in LANGUAGES if lang != "en"}
    for lang, catalogue in catalogues.items():
        catalogue.update((text, other) for text in sorted(strings) if (other := translated(text, lang)) != text)
    return json.dumps(catalogues, ensure_ascii=False)


def style(name: str) -> str:
    """Return a style sheet by its path in web/."""
    return asset(f"{name}.css")


@cache
def asset(path: str) -> str:
    """Return the text of a file of web/."""
    return (files("qkv") / "web" / path).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
