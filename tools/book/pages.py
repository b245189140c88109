"""Fill a page of the book: insert cells, figures and command output, compute values, and return plain Markdown.

A line may be

    @cell scores                     the code of a cell, and its output
    @code scores                     only the code
    @output scores                   only the output
    @figure it_cat What it shows.    a figure of the script, with its caption, which is also the alt text
    @console qkv steps "我 爱"        a command and its output, in the page's language; `@console[3-9]` only those lines
    @mistakes S1 S3                  mistakes of qkv check, in the words of the catalogue
    @exercise softmax                an exercise of qkv learn

and within a line `{{ weights[0, 1]:.2f }}` is a value of the script, `{{ n:spelled }}` a small number as a word, `$√d$` a
formula. Every number in the prose must be such a reference; `loose_numbers` finds the others.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from latex2mathml import converter

from qkv.cli import main
from qkv.doctor.mistakes import CATALOGUE
from qkv.i18n import say
from qkv.lessons.lesson import COURSE, select_language

from .cells import Chapter
from .figures import SiteFiles, embed

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(```.*?^```$|~~~.*?^~~~$)", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^@(\w+)(\[[\d, -]+\])? +(.+)$", re.MULTILINE)
VALUE = re.compile(r"\{\{ (.+?) \}\}")
SPAN = re.compile(r"(`+[^`]+`+)")
MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.DOTALL)
WORDS = {
    "en": "no one two three four five six seven eight nine ten eleven twelve".split(),
    "zh": "零 一 两 三 四 五 六 七 八 九 十 十一 十二".split(),
}


@dataclass(frozen=True)
class Page:
    """A page: its language, the relative paths to the root, its chapter, the files of the site."""

    lang: str
    up: str
    up_here: str  # to the root of its language
    chapter: Chapter | None
    site_files: SiteFiles


def fill(source: str, page: Page) -> str:
    """Return the page with everything filled in."""
    parts = FENCE.split(source)
    return "".join(part if part.startswith(("```", "~~~")) else _text(part, page) for part in parts)


def _text(text: str, page: Page) -> str:
    calls = {
        "cell": _cell,
        "code": _code,
        "output": _output,
        "figure": _figure,
        "console": _console,
        "mistakes": _mistakes,
        "exercise": _exercise,
    }
    rendered: list[str] = []

    def call(match: re.Match[str]) -> str:
        name, lines, rest = match.groups()
        if name not in calls:
            raise ValueError(f"@{name} is none of {', '.join(calls)}")
        rendered.append(calls[name](rest.strip(), lines, page))
        return f"\0{len(rendered) - 1}\0"  # so that inserted text is not parsed again

    text = CALL.sub(call, text)
    text = VALUE.sub(lambda match: value(match[1], page), text)
    text = "".join(part if part.startswith("`") else MATH.sub(_math, part) for part in SPAN.split(text))
    return re.sub("\0(\\d+)\0", lambda match: rendered[int(match[1])], text)


def value(expression: str, page: Page) -> str:
    """Return the value of an expression as text: `weights.max():.2f`, `n:spelled`, `share:percent`."""
    names = {} if page.chapter is None else page.chapter.values
    code, _, format_spec = expression.partition(":") if "[" not in expression else _split_format(expression)
    result = eval(code, dict(names))
    if format_spec == "spelled":
        return WORDS[page.lang][result] if 0 <= result < 13 else str(result)
    if format_spec == "percent":
        return f"{100 * result:.0f} %"
    if isinstance(result, float) and not format_spec:
        raise ValueError(f"{{{{ {expression} }}}} is {result}: say how many digits, as in {{{{ {expression}:.2f }}}}")
    return re.sub(r"^-(?=[\d.])", "−", format(result, format_spec))


def _split_format(expression: str) -> tuple[str, str, str]:
    """Split at the last colon outside brackets, since slices contain colons."""
    depth = 0
    for at in range(len(expression) - 1, -1, -1):
        depth += (expression[at] in ")]}") - (expression[at] in "([{")
        if expression[at] == ":" and depth == 0:
            return expression[:at], ":", expression[at + 1 :]
    return expression, "", ""


def _math(match: re.Match[str]) -> str:
    block, inline = match.groups()
    mathml = converter.convert(block or inline, display="block" if block else "inline")
    # In a span, since Markdown takes a line that begins with <math> for a block.
    return f'\n<div class="formula">{mathml}</div>\n' if block else f"<span>{mathml}</span>"


def _chapter(page: Page, name: str) -> Chapter:
    if page.chapter is None or name not in page.chapter.cells:
        raise ValueError(f"there is no cell {name}: {', '.join(page.chapter.cells) if page.chapter else 'no script'}")
    return page.chapter


def _code(name: str, lines: str | None, page: Page) -> str:
    code = select_language(_chapter(page, name).cells[name].code, page.lang).strip("\n")
    return f"```python\n{code}\n```"


def _output(name: str, lines: str | None, page: Page) -> str:
    printed = _chapter(page, name).printed[name]
    return f"```text\n{_select_lines(printed, lines)}\n```" if printed else ""


def _cell(name: str, lines: str | None, page: Page) -> str:
    return f"{_code(name, None, page)}\n\n{_output(name, lines, page)}"


def _figure(rest: str, lines: str | None, page: Page) -> str:
    name, _, caption = rest.partition(" ")
    values = {} if page.chapter is None else page.chapter.values
    if name not in values or page.chapter is None:
        raise ValueError(f"the script has no figure {name}")
    if not caption.strip():
        raise ValueError(f"@figure {name} has no caption")
    caption_html = VALUE.sub(lambda match: value(match[1], page), caption.strip())
    return embed(values[name], f"{page.chapter.path.stem}-{name}", caption_html, page.lang, page.up, page.site_files)


def _console(line: str, lines: str | None, page: Page) -> str:
    return f"```console\n$ {line}\n{_select_lines(command(line, page.lang), lines)}\n```"


def _mistakes(ids: str, lines: str | None, page: Page) -> str:
    stop = "。" if page.lang == "zh" else ". "
    rows = []
    for mistake_id in ids.split():
        name, does = (say(words, page.lang) for words in (CATALOGUE[mistake_id].name, CATALOGUE[mistake_id].does))
        rows.append(f"- [**{mistake_id}**]({page.up_here}check.md#{mistake_id.lower()}) {name}{stop}{does}")
    return "\n".join(rows)


def _exercise(name: str, lines: str | None, page: Page) -> str:
    lesson = next(lesson for lesson in COURSE if lesson.name == name)
    title = say(lesson.title, page.lang)
    return f"```sh\nqkv learn {name}        # {title}\n```"


def _select_lines(text: str, lines: str | None) -> str:
    """Return only some lines, `[3-9]` or `[1-2, 8-9]`, with … for the others."""
    if not lines:
        return text
    all_lines = text.split("\n")
    selected: list[str] = []
    last = 0
    for span in lines.strip("[]").split(","):
        first, _, end = span.strip().partition("-")
        selected += ["…"] * (int(first) > last + 1) + all_lines[int(first) - 1 : int(end or first)]
        last = int(end or first)
    return "\n".join([*selected, *["…"] * (last < len(all_lines))])


@cache
def command(line: str, lang: str) -> str:
    """Return the output of `qkv …` in a language. It runs in this process, which has loaded torch."""
    name, *arguments = shlex.split(line)
    if name != "qkv":
        raise ValueError(f"only qkv commands are allowed: {line}")
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    before = dict(os.environ)
    try:
        os.environ.update(QKV_LANG=lang, COLUMNS="100", LANG="C.UTF-8")
        with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
            try:
                code = main(arguments)
            except SystemExit as ended:  # argparse exits after --help
                code = int(ended.code or 0)
    finally:
        os.environ.clear()
        os.environ.update(before)
    if code != ("check" in arguments and "--help" not in arguments):
        raise ValueError(f"{line} ended with {code}")
    printed.seek(0)
    return "\n".join(text_line.rstrip() for text_line in printed.read().rstrip().split("\n"))


# Numbers in prose: words with a digit, and number words from three on.
CAPTION = re.compile(r"^@figure +\w+", re.MULTILINE)
HIDDEN = (
    *(FENCE, CALL, VALUE, SPAN, MATH),
    re.compile(r"\]\([^)]*\)|<[^>]+>|^[ \t]*\d+\. |^## (?:Five questions|五个问题)$", re.MULTILINE),
)
ENGLISH = "three four five six seven eight nine ten eleven twelve dozen twenty thirty hundred thousand million billion half third quarter twice".split()
NUMBER = re.compile(
    r"[\w.,%−-]*\d[\w.,%]*|\b(?:"
    + "|".join(f"{word}s?" for word in ENGLISH)
    + r")\b|[三四五六七八九十百千万亿半]+(?=[个种次步层行列倍句段词张条位维分秒章])",
    re.IGNORECASE,
)


def loose_numbers(source: str, allowed: Callable[[str], bool]) -> list[str]:
    """Return the numbers in the prose of a page that are neither computed nor allowed."""
    source = CAPTION.sub("", source)  # captions are prose
    for hidden in HIDDEN:
        source = hidden.sub(" ", source)
    return [number for number in (match[0].strip(".,") for match in NUMBER.finditer(source)) if not allowed(number)]
