"""Benchmark results in Chinese: numbers are unchanged, text is translated, missing translations are reported."""

from collections import Counter

import pytest

from tools.book import results

CATALOGUE = {
    "what": "项目",
    "causal": "因果",
    "n = {}": "n = {}",
    "against {}": "对比 {}",
    "{} tokens/s": "{} 词元/秒",
    "{} of {} are the same": "{1} 个中 {0} 个相同",
    "holds": "达标",
    "GPT-2 (width {}, {} heads): size": "GPT-2（宽度 {}，{} 个头）：大小",
    "Two of {}, as {} says.": "正如 {1} 所说，{0} 个里的两个。",
    "Training": "训练",
    "both, whole": "两者",
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("| what | bar |", "| 项目 | bar |"),
        ("|---|---|", "|---|---|"),
        ("| causal, n = 2,048, against 1.65 | ≤ 1.05 |", "| 因果，n = 2,048，对比 1.65 | ≤ 1.05 |"),
        ("| 2.6e+04 tokens/s | holds; 3 of 64 are the same |", "| 2.6e+04 词元/秒 | 达标；64 个中 3 个相同 |"),
        ("| GPT-2 (width 64, 2 heads): size |", "| GPT-2（宽度 64，2 个头）：大小 |"),
        ("| holds; both, whole |  |", "| 达标；两者 |  |"),
        ("## Training", "## 训练"),
        ("- Two of 7, as 3.11.7 says.", "- 正如 3.11.7 所说，7 个里的两个。"),
        ("<!-- end train -->", "<!-- end train -->"),
        ("", ""),
    ],
)
def test_a_line_in_chinese(line, expected):
    assert results.Chinese(CATALOGUE).page(line) == expected


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("| causal, n = 8, backward | 3 ms | holds; twice |", ["backward", "{} ms", "twice"]),
        ("A paragraph, n = 3.", ["A paragraph, n = {}."]),
        ("| causal | 0.25 | ≤ 1 |", []),
    ],
)
def test_what_has_no_chinese_is_named_with_its_line(line, missing):
    chinese = results.Chinese(CATALOGUE)
    chinese.page(line)
    assert chinese.missing == dict.fromkeys(missing, line)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return a function that writes a page and its catalogue."""

    def write(page, catalogue):
        for name, text in (("RESULTS", page), ("CATALOGUE", catalogue)):
            (tmp_path / name).write_text(text, encoding="utf-8")
            monkeypatch.setattr(results, name, tmp_path / name)

    return write


def test_a_new_row_is_named_until_its_chinese_is_written(files, capsys):
    files("| a new row | 3 ms |\n", 'msgid "{} ms"\nmsgstr "{} ms"\n')
    (message,) = results.problems()
    assert "'a new row' has no Chinese yet" in message and "make words" in message and "| a new row | 3 ms |" in message
    assert results.main() == 1 == results.main() and "a new row" in capsys.readouterr().out
    written = results.CATALOGUE.read_text(encoding="utf-8")
    assert written.count('msgid "a new row"\nmsgstr ""') == 1, "added once"
    results.CATALOGUE.write_text(written.replace('row"\nmsgstr ""', 'row"\nmsgstr "新的一行"'), encoding="utf-8")
    assert results.problems() == [] and results.main() == 0
    assert results.page("zh") == "| 新的一行 | 3 ms |\n" and results.page("en") == "| a new row | 3 ms |\n"


@pytest.mark.parametrize("chinese", ["{} ms {}", "ms", "{1} ms"])
def test_chinese_with_other_numbers_is_named(files, chinese):
    files("| 3 ms |\n", f'msgid "{{}} ms"\nmsgstr "{chinese}"\n')
    (message,) = results.problems()
    assert "other placeholders" in message
    results.page("zh")


def test_the_chinese_page_has_the_same_numbers():
    english, chinese = (results.page(lang).split("\n") for lang in ("en", "zh"))
    assert len(english) == len(chinese)
    for line, chinese_line in zip(english, chinese, strict=True):
        assert Counter(results.NUMBER.findall(line)) <= Counter(results.NUMBER.findall(chinese_line))
        assert line.count("|") == chinese_line.count("|")
