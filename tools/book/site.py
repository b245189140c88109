"""The site: every page in both languages, laid out for zensical, built, and made to work without a network.

English stands at the root of site/, Chinese in site/zh/, page for page under the same names, so that the switch in the header
keeps the page. Nothing is fetched by a reader: no font, no script, no formula; search works from the disk too.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from . import reference
from .cells import Chapter, run
from .figures import SiteFiles
from .pages import Page, fill

ROOT = Path(__file__).resolve().parents[2]
DOCS, THEME = ROOT / "docs", Path(__file__).parent / "look"
LANGUAGES = {"en": "", "zh": ".zh-CN"}

# The pages in reading order: a section, and its pages by where they stand in the site.
NAV: dict[tuple[str, str], tuple[str, ...]] = {
    ("One minute", "一分钟"): ("index",),
    ("The mechanism", "机制"): tuple(
        f"mechanism/{name}"
        for name in (
            "similarity queries scaling softmax sentence masks heads crossing positions block cost beyond".split()
        )
    ),
    ("Doing", "动手"): tuple(
        "doing/gpt doing/translator doing/bert doing/distance doing/looking studio doing/mistakes doing/peers".split()
    ),
    ("Gallery", "画廊"): ("gallery",),
    ("Reference", "参考"): tuple(
        "guide api cli configuration check architecture formats faq glossary patterns mixers lab huggingface busy".split()
    ),
    ("The project", "项目"): tuple("promises benchmarks changelog contributing security cite".split()),
}
# Pages whose text stands elsewhere in the project.
ELSEWHERE = {
    "changelog": "CHANGELOG",
    "contributing": "CONTRIBUTING",
    "security": "SECURITY",
    "benchmarks": "benchmarks/RESULTS",
}
# Pages under their former names, so that old links still open them.
MOVED = {"conventions": "architecture"}
REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={name}.html"><a href="{name}.html">qkv</a>\n'
SWITCH = re.compile(r"^\[(?:简体中文|中文说明|English)\]\([^)]*\)\n+", re.MULTILINE)
LINK = re.compile(r"(?<!\!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
MISTAKE = re.compile(r"^### ([A-Z]\d+) · (.*)$", re.MULTILINE)
# Anchors that keep 汉字, as GitHub makes them.
SLUGS = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
FETCHED = re.compile(
    r"https?://unpkg\.com/iframe-worker/shim"
)  # what zensical has search fetch on a page from the disk
ALTERNATE = re.compile(
    r'\s*<link rel="alternate"[^>]*hreflang[^>]*>'
)  # has a script ask for a map of the other language


@dataclass(frozen=True)
class Source:
    """A page: its place in the site, its language, and the file that holds its text (None: it is made by reference.py)."""

    name: str
    lang: str
    path: Path | None

    @property
    def script(self) -> Path | None:
        """What its numbers come from; the same for both languages."""
        script = DOCS / f"{self.name}.py"
        return script if script.exists() else None

    def text(self) -> str:
        return reference.PAGES[self.name](self.lang) if self.path is None else self.path.read_text(encoding="utf-8")


def names() -> list[str]:
    return [name for pages in NAV.values() for name in pages]


def sources() -> Iterator[Source]:
    """Every page in every language."""
    for name in names():
        for lang, suffix in LANGUAGES.items():
            if name in reference.PAGES:
                yield Source(name, lang, None)
            else:
                yield Source(name, lang, ROOT / f"{ELSEWHERE.get(name, f'docs/{name}')}{suffix}.md")


def scripts() -> list[Path]:
    return [DOCS / f"{name}.py" for name in names() if (DOCS / f"{name}.py").exists()]


def render(source: Source, chapter: Chapter | None, site_files: SiteFiles) -> str:
    """A page as Markdown, its links leading to pages of the site."""
    deep = source.name.count("/")
    here = "../" * deep
    page = Page(source.lang, here + ("" if source.lang == "en" else "../"), here, chapter, site_files)
    text = SWITCH.sub("", source.text())
    if source.path is not None:
        text = MISTAKE.sub(lambda match: f"{match[0]} {{ #{match[1].lower()} }}", text)
        text = _rewrite_links(text, source, page, site_files)
    return fill(text, page) if chapter is not None else text


def _rewrite_links(text: str, source: Source, page: Page, site_files: SiteFiles) -> str:
    """Links between files as links between pages; what else of the project is linked to comes along as a file."""
    assert source.path is not None
    folder = source.path.relative_to(ROOT).parent.as_posix()
    page_names = {
        f"{ELSEWHERE.get(name, f'docs/{name}')}{suffix}.md": name for name in names() for suffix in LANGUAGES.values()
    } | {"README.md": "index", "README.zh-CN.md": "index"}

    def page_address(link: str) -> str | None:
        target, _, anchor = link.partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return link
        path = normpath(str(PurePosixPath(folder, target)))
        if path in page_names:
            address = relpath(page_names[path], PurePosixPath(source.name).parent.as_posix())
            return f"{address}.md{'#' + anchor if anchor else ''}"
        if (ROOT / path).is_file():
            file_name = (
                f"files/{path}.txt" if path.endswith((".md", ".py")) else f"files/{path}"
            )  # a browser shows texts
            site_files.put(file_name, (ROOT / path).read_bytes)
            return f"{page.up}{file_name}"
        if (ROOT / path).is_dir():
            return None  # a folder can't be shown: its name stays
        raise ValueError(f"{source.path}: {link} leads nowhere")

    def replace_link(match: re.Match[str]) -> str:
        address = page_address(match[2])
        return f"[{match[1]}]({address})" if address else match[1]

    text = PICTURE.sub(lambda match: f"![{match[1]}]({page_address(match[2])})", text)
    pieces = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(piece if piece.startswith("`") else LINK.sub(replace_link, piece) for piece in pieces)


def build(out: Path, work: Path, slow: bool = False, verbose: bool = True) -> None:
    """Run the scripts, fill the pages, build both languages into `out`."""
    for folder in (out, work):
        shutil.rmtree(folder, ignore_errors=True)
    site_files = SiteFiles()
    chapters: dict[Path, Chapter] = {}
    for script in scripts():
        if verbose:
            print(f"running {script.relative_to(ROOT)}", flush=True)
        chapters[script] = run(script, slow)
    for source in sources():
        there = work / source.lang / "docs" / f"{source.name}.md"
        there.parent.mkdir(parents=True, exist_ok=True)
        try:
            there.write_text(
                render(source, chapters.get(source.script) if source.script else None, site_files), "utf-8"
            )
        except Exception as error:
            error.add_note(f"on the page {source.name} ({source.lang})")
            raise
    for lang in LANGUAGES:
        _zensical(work / lang, lang, out if lang == "en" else out / lang)
    for old, name in MOVED.items():
        for folder in (out, out / "zh"):
            (folder / f"{old}.html").write_text(REDIRECT.format(name=name), "utf-8")
    for name, content in site_files.files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    _offline(out)


def _zensical(work: Path, lang: str, out: Path) -> None:
    """One language, by zensical; its configuration is JSON, which is YAML too."""
    shutil.copytree(THEME / "assets", work / "docs" / "look")
    at = ("en", "zh").index(lang)
    titles = [{section[at]: [f"{name}.md" for name in pages]} for section, pages in NAV.items()]
    flat = [
        section if len(next(iter(section.values()))) > 1 else {next(iter(section)): next(iter(section.values()))[0]}
        for section in titles
    ]
    settings = {
        "site_name": "qkv",
        "site_description": ("Attention explained so that every number is true", "注意力，讲得每个数都是真的")[at],
        "docs_dir": "docs",
        "site_dir": "site",
        "use_directory_urls": False,
        "nav": flat,
        "theme": {
            "name": "material",
            "variant": "modern",
            "language": lang,
            "font": False,
            "custom_dir": str(THEME / "templates"),
            "features": [
                "navigation.footer",
                "navigation.indexes",
                "content.code.copy",
                "search.highlight",
                "toc.follow",
            ],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"}
                | {"toggle": {"icon": "lucide/sun", "name": ("dark", "深色")[at]}},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"}
                | {"toggle": {"icon": "lucide/moon", "name": ("light", "浅色")[at]}},
            ],
        },
        "extra": {"generator": False, "alternate": [{"name": "x", "link": ".", "lang": lang}]},
        "extra_css": ["look/book.css"],
        "extra_javascript": ["look/book.js"],
        "plugins": [{"search": {"lang": lang}}, "offline"],
        "markdown_extensions": [
            "admonition",
            "attr_list",
            "md_in_html",
            "tables",
            "pymdownx.details",
            {"pymdownx.highlight": {"use_pygments": True}},
            "pymdownx.superfences",
            {"toc": {"permalink": True, "slugify": SLUGS}},
        ],
    }
    written = json.dumps(settings, ensure_ascii=False, indent=1).replace(f'"{SLUGS}"', SLUGS)
    (work / "mkdocs.yml").write_text(written, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", "mkdocs.yml"]
    process = subprocess.run(command, cwd=work, capture_output=True, text=True, encoding="utf-8")
    if process.returncode:
        raise ValueError(
            f"zensical could not build the {lang} pages:\n{process.stdout[-6000:]}{process.stderr[-2000:]}"
        )
    shutil.copytree(work / "site", out, dirs_exist_ok=True)


def _offline(out: Path) -> None:
    """Search on a page from the disk needs a small script, which zensical would have it fetch: it comes along instead."""
    shim = (THEME / "iframe-worker.js").read_bytes()
    for lang in LANGUAGES:
        root = out if lang == "en" else out / lang
        (root / "404.html").unlink()  # its links are for a site at a server's root, and a host has its own
        (root / "look" / "iframe-worker.js").write_bytes(shim)
        for page in root.rglob("*.html"):
            if lang == "en" and page.is_relative_to(out / "zh"):
                continue
            text = page.read_text(encoding="utf-8")
            up = "../" * (len(page.relative_to(root).parts) - 1)
            text = ALTERNATE.sub("", FETCHED.sub(f"{up}look/iframe-worker.js", text))
            page.write_text(text, encoding="utf-8")
