"""One offline HTML file: style, script and words are in it, and a policy of its own lets nothing be fetched.

The elements are the ES modules in web/. A page names those that it shows; what they import comes along, all of it put
into one script in the order in which it is needed. Only that script, hashed in the policy, may run.
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
BUNDLED = re.compile(
    rf"{IMPORT.pattern}|^/\*\* @import .*\n|^export ", re.MULTILINE
)  # what a module needs only as a file


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
    """A page that runs these modules of web/ and carries `header` (JSON) and `blocks` (text by name).

    `still` is what it shows until the script has taken over, `early` a few lines that run before everything else.

    >>> made = shell("<b>", "en", "core/words", header={"text": "</script>"})
    >>> made.splitlines()[0], "<title>&lt;b&gt;</title>" in made, made.count("</script>")
    ('<!doctype html>', True, 3)
    """
    main = script(*modules)
    policy = (
        f"default-src 'none'; script-src {_hash(main)} {_hash(first_script)}; style-src 'unsafe-inline'; img-src data:"
    )
    header_json = json.dumps(header, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    texts = (f'<script type="text/plain" id="qkv-{name}">{text}</script>\n' for name, text in (blocks or {}).items())
    no_scripts = _("This page computes its pictures itself: please allow scripts. It fetches nothing.")
    # The script stands before the numbers and doesn't wait for them: the page is drawn while the file is being read.
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
    """A page of one figure whose numbers can be changed: `element` of web/steps draws it from `header`."""
    lang = None if lang is None else language(lang)
    module, name = f"steps/{element}", title or say(default_title, lang or "en")
    header, styles = {"element": element, "lang": lang, **header}, ("core/style", *styles, module)
    return shell(name, lang or "en", module, "page/figure", header=header, styles=styles)


@cache
def script(*modules: str) -> str:
    """Modules and what they import, as one: they name each other's things as they are, so imports and exports only have to go."""
    joined = "\n".join(BUNDLED.sub("", _source(name)) for name in in_order(*modules))
    return _safe(joined.replace("const CATALOGUES = {};", f"const CATALOGUES = {_catalogues(joined)};"))


def in_order(*modules: str) -> list[str]:
    """These modules and all that they import, each after what it needs.

    >>> in_order("core/state", "core/dom", "map/lines")[:3]
    ['core/state', 'core/words', 'core/dom']
    """
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name not in ordered:
            for other in IMPORT.findall(_source(name)):
                visit(posixpath.normpath(posixpath.join(posixpath.dirname(name), other)))
            ordered.append(name)

    for name in modules:
        visit(name)
    return ordered


def in_every_language(sentence: str) -> str:
    """A sentence for who may read any of them, as HTML."""
    return "<br>".join(f'<span lang="{tag(name)}">{escaping.escape(say(sentence, name))}</span>' for name in LANGUAGES)


def tag(lang: str) -> str:
    """A language as HTML names it: fonts go by it."""
    return "zh-CN" if lang == "zh" else lang


def _catalogues(script: str) -> str:
    """What the modules say, in every language there is, as JSON."""
    strings = {json.loads(text) for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', script)}
    translations = {
        lang: {text: translated(text, lang) for text in sorted(strings)} for lang in LANGUAGES if lang != "en"
    }
    changed = {
        lang: {text: translation for text, translation in each.items() if translation != text}
        for lang, each in translations.items()
    }
    return json.dumps(changed, ensure_ascii=False)


def _source(name: str) -> str:
    return asset(f"{name}.js")


def style(name: str) -> str:
    """A style sheet by its path in web/."""
    return asset(f"{name}.css")


@cache
def asset(path: str) -> str:
    """The text of a file of web/."""
    return (files("qkv") / "web" / path).read_text(encoding="utf-8")


def _safe(script: str) -> str:
    return re.sub("</(script)", r"<\\/\1", script, flags=re.IGNORECASE)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
