"""The glossary lists the words that qkv really uses, and both pages say the same."""

import re

from tests.test_readme import ROOT, read
from tools import words as tool


def terms(page: str) -> list[tuple[str, str]]:
    """The first two columns of every row: the term and its translation."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| .+ \|$", read(page), re.MULTILINE)
    return [row for row in rows if row[0] not in ("English", "中文")]


def test_both_pages_have_the_same_words_and_none_twice():
    english = terms("docs/glossary.md")
    assert len(english) > 60 and english == [(there, here) for here, there in terms("docs/glossary.zh-CN.md")]
    for side in zip(*english, strict=True):
        assert len(set(side)) == len(side)


def test_qkv_uses_every_word_of_the_glossary():
    catalogue = [message for message in tool.read(tool.LOCALE / "zh_CN.po") if message.id]
    pages = [path for folder in (ROOT, ROOT / "docs") for path in folder.glob("*.md") if "glossary" not in path.name]
    exercises = sorted((tool.SOURCE / "lessons" / "exercises").glob("*.py"))
    prose = "\n".join(path.read_text(encoding="utf-8") for path in [*pages, *exercises])
    english = " ".join(" ".join([*(message.id for message in catalogue), prose]).lower().split())
    chinese = "\n".join([*(message.string for message in catalogue), prose])
    assert [term for term, _ in terms("docs/glossary.md") if term.lower() not in english] == []
    assert [term for _, term in terms("docs/glossary.md") if term not in chinese] == []
