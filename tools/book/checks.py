"""Checks of the book: of its sources before a build, and of the built site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from . import results
from .pages import loose_numbers
from .site import DOCS, LANGUAGES, NAV, ROOT, Source, sources

# The sections that every chapter of the mechanism has, in this order.
SECTIONS = {
    "en": "The question|The idea|The formula|By hand|In code|In a real head|Mistakes|Exercise|Five questions|Go deeper".split(
        "|"
    ),
    "zh": "问题|直觉|公式|动手算|写成代码|真实的头|常见错误|练习|五个问题|更进一步".split("|"),
}
CHAPTERS = tuple(name for pages in NAV.values() for name in pages if "/" in name or name in ("index", "gallery"))
# Discouraged words: Chinese that textbooks don't use, and other spellings of English terms.
AVOID = {
    "zh": {
        "令牌": "词元",
        "标记化": "分词",
        "关注头": "注意力头",
        "多头关注": "多头注意力",
        "嵌入式": "嵌入",
        "遮罩": "掩码",
        "蒙版": "掩码",
        "软最大": "softmax",
        "向量积": "点积",
        "钥匙": "键",
    },
    "en": {
        "self attention": "self-attention",
        "cross attention": "cross-attention",
        "multi head": "multi-head",
        "multihead attention": "multi-head attention",
        "Softmax(": "softmax(",
        "feedforward": "feed-forward",
        "dot-product ": "dot product ",
    },
}
LARGEST, FIRST_PAGE = 25_000_000, 500_000


@cache
def allowed(page: str) -> frozenset[str]:
    """Return the numbers of docs/numbers.txt that a page may contain: names, or counts visible in the sentence."""
    numbers, scope = set(), ""
    for line in (DOCS / "numbers.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            scope = line[2:] if line[2:] in CHAPTERS else scope
        elif line.strip() and scope in ("", page):
            numbers.add(line.split("  ")[0].strip().lower())
    return frozenset(numbers)


def check_source(source: Source) -> Iterator[str]:
    """Yield the problems of a page's source."""
    assert source.path is not None
    text, where = source.path.read_text(encoding="utf-8"), source.path.relative_to(ROOT)
    if source.name.startswith("mechanism/") and headings(text, 2) != SECTIONS[source.lang]:
        yield f"{where}: its sections are {headings(text, 2)}, not {SECTIONS[source.lang]}"
    if "/" in source.name and len(re.findall(r'^\?\?\? question "', text, re.MULTILINE)) != 5:
        yield f'{where}: a chapter needs five questions (??? question "…")'
    for number in loose_numbers(text, lambda candidate: candidate.lower() in allowed(source.name)):
        yield f"{where}: {number!r} is not computed: write {{{{ … }}}}, or list it in docs/numbers.txt"
    for discouraged, preferred in AVOID[source.lang].items():
        if discouraged in text:
            yield f"{where}: {discouraged!r}: the glossary says {preferred!r}"


def check_languages(name: str) -> Iterator[str]:
    """Yield the differences between both languages in sections, figures and cells."""
    english, chinese = ((DOCS / f"{name}{suffix}.md").read_text(encoding="utf-8") for suffix in LANGUAGES.values())
    for level in (1, 2, 3):
        in_english, in_chinese = (len(headings(text, level)) for text in (english, chinese))
        if in_english != in_chinese:
            yield f"docs/{name}: {in_english} headings of level {level} in English, {in_chinese} in Chinese"
    for call in ("figure", "cell", "code", "output", "console", "mistakes", "exercise"):
        in_english, in_chinese = (re.findall(rf"^@{call}\S* +(\S+)", text, re.MULTILINE) for text in (english, chinese))
        if in_english != in_chinese and call != "console":
            yield f"docs/{name}: @{call} {in_english} in English, {in_chinese} in Chinese"


def headings(text: str, level: int) -> list[str]:
    """Return the headings of a level, without `#` in code blocks."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(rf"^{'#' * level} (.+?)(?: \{{.*\}})?$", outside, re.MULTILINE)


def book() -> list[str]:
    """Return the problems of all sources."""
    chapters = [source for source in sources() if source.name in CHAPTERS]
    missing = [f"{source.path} is missing" for source in chapters if source.path is None or not source.path.exists()]
    if missing:
        return missing
    messages = [message for source in chapters for message in check_source(source)]
    return messages + [message for name in CHAPTERS for message in check_languages(name)] + results.problems()


class PageParser(HTMLParser):
    """The links and anchors of a built page, its elements without alt text, and addresses that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.mute: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := attributes.get(name))}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"] or "")
        for name in ("src", "href", "data-src"):
            if tag in ("img", "script", "iframe", "link") and (address := attributes.get(name)):
                self.links.append(address)
                if re.match(r"(?:https?:)?//", address) and attributes.get("rel") not in ("canonical", "alternate"):
                    self.fetched.append(address)
        if (tag == "img" and not attributes.get("alt")) or (tag == "iframe" and not attributes.get("title")):
            self.mute.append(attributes.get("src") or tag)


def problems(out: Path) -> list[str]:
    """Return the problems of the built site and its sources."""
    messages = book()
    pages = {path: PageParser(path.read_text(encoding="utf-8")) for path in out.rglob("*.html")}
    for path, page in pages.items():
        where = path.relative_to(out)
        messages += [f"{where}: {element} has no alt text or title" for element in page.mute]
        messages += [f"{where}: loads {element}" for element in page.fetched]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                messages.append(f"{where}: broken link {link}")
            elif parts.fragment and target in pages and "=" not in parts.fragment:
                if unquote(parts.fragment) not in pages[target].anchors:
                    messages.append(f"{where}: {link}: the page has no such anchor")
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    if size > LARGEST:
        messages.append(f"the site has {size / 1e6:.1f} MB, more than {LARGEST / 1e6:.0f}")
    return messages
