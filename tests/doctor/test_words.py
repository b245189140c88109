"""Every mistake has its four sentences in both languages, and the page that lists them is up to date."""

import importlib.util
import re
from pathlib import Path

import pytest

from qkv.doctor.mistakes import CATALOGUE, grouped
from qkv.i18n import say

ROOT = Path(__file__).resolve().parents[2]
IDS = """S1 S2 S3 S4 S6 S7 S8 X1 X2 X3 X5 X6 X7 X8 M1 M2 M3 M5 M6 M7 M8 M9 M11 M12 M14 M15 M16 M17 M18 M19 M20 M21
H1 H2 H3 H4 H6 H7 H8 H9 H10 H11 P1 P2 P3 P4 C1 C2 C3 C4 C5 R1 R3 R4 R5 R6 R7 K1 K2 K3 K4 K5 L1 L2 L3 L4 L5 N1 N2 N3
T1 T2 T3 T5 T6 T8 E1 W1""".split()
HAN = re.compile("[\u4e00-\u9fff]")

# Words that Chinese texts on attention write in Latin letters too: names of things in code, of models, of numbers.
LATIN = set(
    """softmax dropout value key query NaN LayerNorm Linear PyTorch NumPy Python float CPU GPU RuntimeError ALiBi LLaMA Qwen Mistral
    KV eval reshape scaled_dot_product_attention rotate_half pre norm post True False None W_q W_k d_k sin cos exp inf mod W_v
    qkv check py Name pytest markdown json lang float16 float32 float64 F dim mask MyAttention English md GPT delta
    JSON Luong Linux x86_64 aarch64 Landlock seccomp ctypes root SIGKILL""".split()
)


def without_code(text):
    """Prose only: no code spans, no indented blocks, no addresses."""
    text = re.sub(r"^    .*$", "", text, flags=re.M)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|“[^”]*”", " ", text)


def foreign(text):
    """Latin words of a Chinese text that are not names."""
    words = re.findall(r"[A-Za-z_][A-Za-z_0-9]{2,}", without_code(text))
    return [w for w in words if w not in LATIN and not re.fullmatch(r"[A-Z]\d+", w)]


def said(sentence):
    """In both languages, filled in, so that a stray brace is an error."""
    return say(sentence, "en"), say(sentence, "zh")


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("make_check_docs", ROOT / "tools" / "make_check_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_catalogue_is_whole():
    assert [mistake.id for group in grouped().values() for mistake in group] == [
        *(i for i in IDS if i[0] in "S"),
        *(i for i in IDS if i[0] in "X"),
        *(i for i in IDS if i[0] in "M"),
        *(i for i in IDS if i[0] in "H"),
        *(i for i in IDS if i[0] in "PC"),
        *(i for i in IDS if i[0] in "R"),
        *(i for i in IDS if i[0] in "K"),
        *(i for i in IDS if i[0] in "L"),
        *(i for i in IDS if i[0] in "NTEW"),
    ]


@pytest.mark.parametrize("id", IDS)
def test_a_mistake_has_all_its_sentences(id):
    mistake = CATALOGUE[id]
    for sentence in (mistake.name, mistake.does, mistake.fix, mistake.shows):
        english, chinese = said(sentence)
        assert english and not HAN.search(english)
        assert HAN.search(chinese)
        assert foreign(chinese) == []
        assert not re.search("[\u4e00-\u9fff][,;:!?]", without_code(chinese)), "half-width punctuation"
        assert english.count("`") % 2 == chinese.count("`") % 2 == 0
        # The same code in both: a fix that differs between the languages is a slip.
        assert sorted(re.findall("`[^`]+`", english)) == sorted(re.findall("`[^`]+`", chinese))
    name, does = said(mistake.name), said(mistake.does)
    assert len(name[0]) <= 75 and not name[0].endswith(".") and not name[1].endswith("。")
    assert does[0].endswith(".") and does[1].endswith("。")
    assert "`" in mistake.fix or id in ("R5", "K4")


def test_no_two_mistakes_share_a_name():
    for place in (0, 1):
        names = [said(CATALOGUE[id].name)[place] for id in IDS]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_is_up_to_date(tool, lang):
    """If this fails: python tools/make_check_docs.py"""
    assert tool.FILES[lang].read_text(encoding="utf-8") == tool.page(lang)


def test_the_pages_say_the_same(tool):
    english, chinese = tool.page("en"), tool.page("zh")
    assert re.findall("^#+ [A-Z][0-9]+ ", english, re.M) == re.findall("^#+ [A-Z][0-9]+ ", chinese, re.M)
    assert english.count("\n- ") == chinese.count("\n- ") and english.count("\n|") == chinese.count("\n|")
    assert not HAN.search(english.replace("简体中文", ""))
    assert foreign(chinese) == []
    flags = re.compile(r"--[a-z][a-z-]+")
    assert set(flags.findall(english)) == set(flags.findall(chinese))


def test_the_page_s_options_exist(tool):
    from argparse import ArgumentParser

    from qkv.commands.check import arguments

    parser = ArgumentParser()
    arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings} | {"--lang"}
    assert set(re.findall(r"--[a-z][a-z-]+", tool.page("en"))) <= known
