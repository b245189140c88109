"""Pages are filled with what they refer to, and numbers that are not computed are reported."""

from pathlib import Path

import numpy as np
import pytest

from tools.book import checks
from tools.book.cells import Cell, Chapter
from tools.book.figures import SiteFiles
from tools.book.pages import Page, fill, loose_numbers

CODE = "x = 1  # one | 一\n"


def page(lang="en", **values):
    chapter = Chapter(Path("chapter.py"), {"one": Cell("one", CODE, 1, False)}, {"one": "printed"}, values)
    return Page(lang, "../", "", chapter, SiteFiles())


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("{{ x:.2f }}", "−0.67"),
        ("{{ n }}", "7"),
        ("{{ n:spelled }}", "seven"),
        ("{{ table[0, 1]:.1f }}", "2.0"),
        ("{{ table[:, 1:].sum():.0f }}", "6"),
        ("{{ share:percent }}", "25 %"),
        ("`{{ n }}` and {{ word }}", "`7` and cat"),
    ],
)
def test_a_reference_is_the_value(reference, expected):
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert fill(reference, page(x=-2 / 3, n=7, table=table, share=0.25, word="cat")) == expected


def test_a_small_number_is_a_word_of_the_language():
    assert fill("{{ n:spelled }}", page("zh", n=3)) == "三"


def test_a_float_without_digits_is_refused():
    with pytest.raises(ValueError, match="say how many digits"):
        fill("{{ x }}", page(x=0.1))


def test_unknown_names_are_errors():
    with pytest.raises(NameError):
        fill("{{ nothing }}", page())


def test_code_is_followed_by_its_output():
    assert fill("@cell one", page("zh")) == "```python\nx = 1  # 一\n```\n\n```text\nprinted\n```"
    assert fill("@code one", page("en")) == "```python\nx = 1  # one\n```"


def test_code_blocks_are_unchanged():
    assert fill("```text\n{{ x }} $a$ @cell one\n```", page()) == "```text\n{{ x }} $a$ @cell one\n```"


@pytest.mark.parametrize("line", ["@cell two", "@figure none What.", "@what one", "@figure x"])
def test_missing_parts_are_errors(line):
    with pytest.raises(ValueError, match=r"no cell two|no figure none|none of|has no caption"):
        fill(line, page(x=1))


def test_formulas_are_mathml():
    html = fill(r"so $\sqrt{d}$ it is", page())
    assert "<msqrt>" in html and "$" not in html


def test_commands_print_in_the_language_of_the_page():
    english, chinese = (fill('@console qkv steps "a b" --word a', page(lang)) for lang in ("en", "zh"))
    assert "step by step" in english and "词向量" in chinese
    cut = fill('@console[2-3] qkv steps "a b" --word a', page())
    assert cut.count("\n") == 6 and cut.split("\n")[2] == "…" == cut.split("\n")[-2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it gets 0.80 of it", ["0.80"]),
        ("seven heads", ["seven"]),
        ("一共七个头", ["七"]),
        ("twice as large", ["twice"]),
        ("{{ x:.2f }} and `0.5` and $x^2$", []),
        ("```text\n12\n```\n[a](b2.md) 7", ["7"]),
        ("@figure one The 3 heads.", ["3"]),
        ("@mistakes S1 S3", []),
        ("allowed 13", []),
    ],
)
def test_numbers_in_prose_are_detected(text, expected):
    assert loose_numbers(text, lambda number: number == "13") == expected


def test_both_languages_must_have_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "DOCS", tmp_path)
    (tmp_path / "a.md").write_text("# A\n\n## B\n\n@figure one X\n", encoding="utf-8")
    (tmp_path / "a.zh-CN.md").write_text("# 甲\n\n@figure two 某\n", encoding="utf-8")
    assert len(list(checks.check_languages("a"))) == 2


def test_built_pages_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "book", lambda: [])
    (tmp_path / "a.html").write_text(
        '<h1 id="here"></h1><a href="b.html">x</a><a href="#there">x</a><a href="#here">x</a><img src="a.html">'
        '<script src="https://example.org/x.js"></script><a href="a.html#lang=zh">x</a>',
        encoding="utf-8",
    )
    messages = checks.problems(tmp_path)
    assert sorted(message.split(": ")[-1] for message in messages) == [
        "a.html has no alt text or title",
        "broken link b.html",
        "loads https://example.org/x.js",
        "the page has no such anchor",
    ]
