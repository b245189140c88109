"""docs/lab.md in both languages names every experiment, its example, and figures that exist."""

import re
from pathlib import Path

import pytest

from qkv.lab import EXPERIMENTS

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", ["lab.md", "lab.zh-CN.md"])
def test_the_page_is_complete(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    assert [experiment for experiment in EXPERIMENTS if f"\n## {experiment}\n" not in text] == []
    assert [e.example for e in EXPERIMENTS.values() if e.example not in text] == []
    linked = re.findall(r"\]\(([\w./-]+)\)", text)
    assert [path for path in linked if not (DOCS / path).exists()] == []


@pytest.mark.parametrize("name", ["lab.md", "lab.zh-CN.md"])
def test_every_documented_option_exists(name):
    options = {size.option for experiment in EXPERIMENTS.values() for size in experiment.sizes} | {"--json", "--help"}
    documented = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", (DOCS / name).read_text(encoding="utf-8")))
    assert documented <= options | {"--lang"}
