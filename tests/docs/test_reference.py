"""Every name, command, option and setting is in the reference."""

import argparse
import re

import pytest

import qkv
from qkv.cli import VERBS
from qkv.model.config import NAMES
from qkv.train.settings import Settings
from tests.laws.test_options import parsers
from tools.book import reference
from tools.book.site import DOCS

API = {lang: reference.api(lang) for lang in ("en", "zh")}


@pytest.mark.parametrize("name", qkv.__all__)
def test_a_promised_name_is_there_with_an_example(name):
    for text in API.values():
        section = re.search(rf"^### `qkv\.{name}` .*?(?=^#{{2,3}} |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section and ">>> " in section[0] and "```pycon" in section[0]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_command_and_option_is_there(lang):
    text = reference.cli(lang)
    for verb in VERBS:
        for words, parser in parsers(verb):
            mark = f"{'#' * (1 + len(words))} qkv {' '.join(words)}\n"
            assert text.count(mark) == 1
            section = re.split(r"^#{2,3} qkv ", text.split(mark)[1], flags=re.MULTILINE)[0]
            for action in parser._actions:
                hidden = action.help == argparse.SUPPRESS  # an old spelling
                assert hidden or not action.option_strings or action.option_strings[-1] in section


@pytest.mark.parametrize("page", ["configuration.md", "configuration.zh-CN.md"])
@pytest.mark.parametrize("kind", [qkv.Config, Settings], ids=["model", "training"])
def test_every_setting_is_there_with_its_default(kind, page):
    text = (DOCS / page).read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", text, re.MULTILINE))
    groups = {group: ", ".join(f"`{field}`" for field in names) for group, names in NAMES.items()}
    rows = re.findall(r"^\| `(\w+)` \| (`\w+`(?:(?:, |、)`\w+`)+) \|$", text, re.MULTILINE)
    assert {group: names.replace("、", ", ") for group, names in rows} == groups
    defaults = {name: repr(value) for name, value in kind().to_dict().items() if name != "before"}
    assert defaults.items() <= documented.items()
