"""A report reads like a reviewer's in both languages, and crosses as JSON with nothing lost."""

import json
import re

import pytest

from qkv.doctor import report as reporting
from qkv.doctor.report import Finding, Remark, Report, worst, wrap
from qkv.i18n import Message, unpacked
from qkv.terminal import text_grid

EVIDENCE = unpacked(
    {
        "en": "Your output equals attention scaled by √width to 3e-16; you divide by √64 = 8, and d_k is 16, so it should be √16 = 4.",
        "zh": "你的输出与按 √width 缩放的注意力相差 3e-16；你除以 √64 = 8，而 d_k 是 16，应除以 √16 = 4。",
    }
)
FAULT = Finding("S3", EVIDENCE, 23, diff="- s / sqrt(d_model)\n+ s / sqrt(d_k)", code="        s = s / sqrt(d_model)")
REMARK = Remark("M18", unpacked({"en": "A fully masked row gives NaN.", "zh": "全被遮住的行得到 NaN。"}), 12)
UNSEEN = Remark("cache", unpacked({"en": "its cache: it can't be built", "zh": "它的缓存：无法构造"}))
ADAPTED = {
    "kind": "attention",
    "built": "MHA(d_model=24, num_heads=4)",
    "called": "f(q, k, v, mask)",
    "heads": 4,
    "mask": unpacked({"en": "True keeps", "zh": "True 保留"}),
    "checked": ["LEAK", "DET"],
    "skipped": {"CACHE": unpacked({"en": "it has no cache", "zh": "没有缓存"})},
}


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    words = {
        "name": {"en": "scores divided by √width", "zh": "除以了 √width"},
        "does": {"en": "Flat.", "zh": "太平。"},
        "fix": {"en": "Divide by √d_k.", "zh": "除以 √d_k。"},
    }
    whole = reporting.Finding._of
    monkeypatch.setattr(
        reporting.Finding, "_of", lambda self, what: unpacked(words[what]) if self.id == "S3" else whole(self, what)
    )


def wrong(**changes):
    whole = {"findings": [FAULT], "remarks": [REMARK], "adapted": ADAPTED} | changes
    return Report("my/model.py:MHA", "wrong", **whole)


def test_the_verdict_comes_first_then_what_a_reviewer_says():
    text = str(wrong())
    lines = text.split("\n")
    assert lines[0] == "✗ my/model.py:MHA has a mistake"
    order = ["S3  scores divided by √width", "Your output equals", "What it does: Flat.", "my/model.py:23"]
    order += ["23 │ s = s / sqrt(d_model)", "Fix: Divide by √d_k.", "- s / sqrt(d_model)", "+ s / sqrt(d_k)"]
    order += ["Remarks", "A fully masked row gives NaN. (my/model.py:12)", "How it was run: built as MHA(d_model=24"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    end = " ".join(text[places[-1] :].split())
    assert end == (
        "How it was run: built as MHA(d_model=24, num_heads=4); called as f(q, k, v, mask); 4 heads; mask: True keeps; "
        "2 checks, 1 more do not apply"
    )


def test_the_same_in_chinese():
    text = wrong().terminal("zh", columns=200)
    parts = [
        "✗ my/model.py:MHA 有一处错误",
        "除以了 √width",
        "后果：太平。",
        "改法：除以 √d_k。",
        "附注",
        "如何运行：构造 MHA",
    ]
    for part in [*parts, "掩码：True 保留", "检查 2 项，另有 1 项不适用", "（my/model.py:12）"]:
        assert part in text.replace("\n  ", ""), text
    assert "mistake" not in text and "Fix" not in text


@pytest.mark.parametrize(
    ("verdict", "code", "says"),
    [
        ("right", 0, "✓ a.py:f is right"),
        ("partly", 0, "≈ a.py:f is right as far as checked"),
        ("wrong", 1, "✗ a.py:f"),
        ("unknown", 2, "? a.py:f could not be checked"),
    ],
)
def test_codes(verdict, code, says):
    unseen = [UNSEEN] if verdict == "partly" else []
    report = Report(
        "a.py:f", verdict, problem=unpacked({"en": "because", "zh": "因为"}) if code == 2 else None, unseen=unseen
    )
    assert report.exit_code == code and report.ok == (verdict == "right") and str(report).startswith(says)
    assert ("because" in str(report)) == (code == 2)


def test_a_verdict_is_one_of_four():
    with pytest.raises(ValueError, match="right, partly, wrong, unknown"):
        Report("a", "fine")


def test_nothing_is_right_of_which_something_was_not_looked_at():
    with pytest.raises(ValueError, match="not right but partly: its cache"):
        Report("a", "right", unseen=[UNSEEN])
    with pytest.raises(ValueError, match="says what was not checked"):
        Report("a", "partly")


def test_what_was_not_checked_stands_right_below_the_verdict():
    report = Report("a.py:f", "partly", remarks=[REMARK], adapted=ADAPTED, unseen=[UNSEEN])
    assert str(report).split("\n")[:4] == [
        "≈ a.py:f is right as far as checked: no mistake found (checks: 2), but not all could be done",
        "",
        "  Not checked",
        "  · its cache: it can't be built",
    ]
    assert report.terminal("zh").split("\n")[2:4] == ["  没有检查", "  · 它的缓存：无法构造"]
    assert report.json("zh")["unseen"] == [{"id": "cache", "text": "它的缓存：无法构造"}]
    assert "### Not checked\n\n- its cache" in report.markdown() and report.markdown().startswith("## 🟡")
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_mistakes_are_counted():
    assert "has a mistake" in str(wrong(findings=[FAULT]))
    assert "has 2 mistakes" in str(wrong(findings=[FAULT, FAULT]))


def test_nothing_is_lost_on_the_way():
    for report in (
        wrong(),
        wrong(problem=EVIDENCE),
        Report("a", "right"),
        wrong(findings=[Finding("M1", EVIDENCE, 3, 2)]),
    ):
        again = Report.from_dict(json.loads(json.dumps(report.to_dict())))
        assert again == report and isinstance(again.adapted.get("mask", Message("x")), Message)


def test_json_for_programs():
    plain = json.loads(
        json.dumps(wrong(adapted={"loss": float("nan"), 3: {1}, "t": (1, 2)}).json("zh"), allow_nan=False)
    )
    assert list(plain) == ["target", "verdict", "findings", "remarks", "unseen", "adapted", "problem"]
    (finding,) = plain["findings"]
    assert finding["id"] == "S3" and finding["line"] == 23 and finding["name"] == "除以了 √width"
    assert (
        finding["evidence"] == EVIDENCE.say("zh")
        and finding["consequence"] == "太平。"
        and finding["fix"] == "除以 √d_k。"
    )
    assert finding["diff"] == FAULT.diff
    assert plain["remarks"] == [{"id": "M18", "text": REMARK.text.say("zh"), "line": 12, "cell": None}]
    assert plain["adapted"] == {"loss": "nan", "3": [1], "t": [1, 2]} and plain["problem"] is None


def test_markdown():
    text = wrong().markdown()
    for part in (
        "## ❌ my/model.py:MHA has a mistake",
        "### S3",
        "```diff\n- s / sqrt(d_model)\n+ s / sqrt(d_k)\n```",
        "- A fully",
    ):
        assert part in text
    assert "````" in wrong(findings=[Finding("S3", EVIDENCE, 1, diff="- ```\n+ x")]).markdown()


def test_colour_only_where_asked():
    assert "\x1b" not in str(wrong())
    coloured = wrong().terminal(colour=True)
    assert "\x1b[31m- s / sqrt(d_model)\x1b[0m" in coloured and "\x1b[32m+ s" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == str(wrong())


def test_what_a_file_holds_does_not_move_the_cursor():
    evil = unpacked({"en": "\x1b[2Jgone\r", "zh": "\x1b[2Jgone"})
    report = wrong(findings=[Finding("S3", evil, 1, diff="- \x1b[1A", code="\x07x")], problem=evil)
    assert not re.search("[\x00-\x09\x0b-\x1f]", report.terminal())


def test_lines_fit_the_terminal():
    for lang in ("en", "zh"):
        for columns in (40, 60, 100):
            lines = wrong(adapted={}).terminal(lang, columns=columns).split("\n")
            assert max(text_grid.width(line) for line in lines) <= columns
    assert wrap("a" * 30, 10) == ["a" * 30] and wrap("", 10) == [""]
    assert wrap("  one two\nthree", 6) == ["  one", "  two", "three"]


def test_where_there_is_no_file_the_line_is_named():
    assert "line 23" in str(Report("MHA", "wrong", [FAULT])) and "第 23 行" in Report("MHA", "wrong", [FAULT]).terminal(
        "zh"
    )
    cell = Report("n.ipynb:MHA", "wrong", [Finding("S3", EVIDENCE, 4, 7)])
    assert "n.ipynb cell 7, line 4" in str(cell)


def test_several():
    right, wrong, unknown = (Report("a", verdict) for verdict in ("right", "wrong", "unknown"))
    partly = Report("a", "partly", unseen=[UNSEEN])
    assert worst([right, partly, wrong, unknown]) == "wrong" and worst([]) == "unknown"
    assert worst([right, right]) == "right" and worst([unknown]) == "unknown" and worst([partly]) == "partly"
    assert worst([right, partly]) == "partly" and worst([right, unknown]) == worst([partly, unknown]) == "unknown"


def test_an_id_without_words_still_shows():
    text = str(wrong(findings=[Finding("Z99", EVIDENCE)]))
    assert "Z99" in text and "What it does" not in text


def test_nothing_was_tried_says_nothing():
    assert "How" not in str(Report("a", "unknown", adapted={"tried": [""], "built": "", "heads": None}))
    assert "tried A(1), A(2)" in str(Report("a", "unknown", adapted={"tried": ["A(1)", "A(2)"]}))
