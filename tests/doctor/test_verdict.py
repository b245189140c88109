"""Nothing is called right that was not looked at, and no verdict depends on how busy the machine is."""

import ast
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import qkv.doctor
import qkv.lessons
from qkv.doctor import assert_correct, check, isolated_check
from qkv.doctor.case import PROBES as SAID
from qkv.doctor.probes.run import PROBES
from qkv.doctor.subject.errors import CALL
from qkv.i18n import Notice
from qkv.sandbox import child

pytestmark = pytest.mark.usefixtures("warm")
CLOCKS = {"time", "datetime", "timeit", "sched"}
# The guard over the processes that run people's code, and how long a lesson's training took, told and never judged.
MAY_READ_A_CLOCK = {"sandbox/child.py", "lessons/graders/tiny_gpt.py", "lessons/exercise_folder.py"}
TIMERS = {"alarm", "setitimer", "dump_traceback_later", "perf_counter", "monotonic", "process_time", "thread_time"}


def clocks(file: Path) -> list[str]:
    """Every place where a file reads a clock or sets a timer."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in CLOCKS:
            found.append(f"{file.name}:{node.lineno}")
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner in CLOCKS or node.attr in TIMERS:
                found.append(f"{file.name}:{node.lineno}")
    return found


def test_no_verdict_reads_a_clock():
    for package in (qkv.doctor, qkv.lessons):
        home = Path(package.__file__).parent
        for file in home.rglob("*.py"):
            name = f"{home.name}/{file.relative_to(home).as_posix()}"
            assert bool(clocks(file)) == (name in MAY_READ_A_CLOCK), (name, clocks(file))


class Mine(nn.Module):
    def __init__(self, width=64, heads=8, scale=None):
        super().__init__()
        self.heads, self.scale = heads, scale or (width // heads) ** -0.5
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Late(Mine):
    """Wrong only where a mask is given: the masks are looked at late."""

    def forward(self, x, mask=None):
        return super().forward(x, None if mask is None else mask * 0 + 1)


@pytest.mark.parametrize("calls", [0, 1, 20, 60, 100])
def test_what_is_cut_is_never_right(calls):
    report = check(Mine(), operations=(calls + 0.5) * CALL)
    assert report.verdict == "partly" and report.exit_code == 0, report
    assert "too large" in report.unseen[0].text.say("en") and "太大" in report.unseen[0].text.say("zh")
    assert str(report).split("\n")[2] == "  Not checked"
    assert check(Late(), operations=(calls + 0.5) * CALL).verdict in ("partly", "wrong")


def test_with_enough_operations_it_is_looked_at_to_the_end():
    assert check(Mine()).verdict == "right"
    assert [finding.id for finding in check(Late()).findings] == ["M3"]


def test_large_ones_are_cut_by_their_size_alone():
    """The same count on every machine: what a call costs is estimated from the weights."""
    small, large = Mine(64), Mine(512)
    first, second = ({one.id for one in check(m, operations=2e9).unseen} for m in (small, large))
    assert first < second


@pytest.mark.parametrize("name", ["time", "monotonic", "perf_counter", "process_time"])
def test_an_hour_between_any_two_looks_changes_nothing(monkeypatch, name):
    now = iter(range(0, 10**9, 3600))
    monkeypatch.setattr(f"time.{name}", lambda: float(next(now)))
    assert check(Mine()).verdict == "right"
    assert [finding.id for finding in check(Mine(scale=1.0)).findings] == ["S2"]


HANGS = """
import time
import torch

calls = 0

def attend(q, k, v, mask=None):
    global calls
    calls += 1
    while calls > {calls}:
        {hang}
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return torch.softmax(scores, -1) @ v
"""


@pytest.mark.parametrize(
    ("calls", "hang"), [pytest.param(0, "pass", marks=pytest.mark.slow), (60, "pass"), (60, "time.sleep(0.1)")]
)
def test_what_the_guard_stops_is_never_right(tmp_path, monkeypatch, calls, hang):
    """By then a few dozen calls have found nothing wrong: that is no verdict."""
    monkeypatch.setattr(child, "WALL", 1)  # one that sleeps is waited for no longer than one that computes
    (tmp_path / "mine.py").write_text(HANGS.format(calls=calls, hang=hang))
    (report,) = isolated_check.examine(tmp_path / "mine.py", "attend", seconds=2)
    assert report.verdict == "unknown" and report.exit_code == 2, report
    assert "did not finish within" in report.problem.say("en") and "mine.py:1" in report.problem.say("en")
    assert ("of computing" in report.problem.say("en")) == (hang == "pass")


class Odd(Mine):
    """A mask that does something, but nothing that masks do."""

    def forward(self, x, mask=None):
        scaled = x if mask is None else x * (1 + 0.1 * mask.double().mean())
        return super().forward(scaled)


def test_a_mask_that_is_not_understood_is_not_right():
    report = check(Odd())
    assert report.verdict == "partly" and "mask mask" in [one.id for one in report.unseen], report


class Pairs(Mine):
    """Two masks that work only together; and one for something else that may be given."""

    def forward(self, x, query_mask=None, key_mask=None, notes=None, notes_mask=None):
        both = None if query_mask is None or key_mask is None else query_mask[:, :, None] * key_mask[:, None]
        noted = 0 if notes is None or notes_mask is None else (notes * notes_mask[..., None]).mean(1, keepdim=True)
        return super().forward(x + noted, None if both is None else both[:, None])


def test_every_mask_argument_is_understood_or_said_not_to_be():
    report = check(Pairs())
    assert [one.id for one in report.unseen] == ["mask notes_mask"], report
    assert "which was not handed over" in str(report.unseen[0].text)


def test_in_a_test_of_one_s_own_it_passes_with_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_correct(Mine())
    with pytest.warns(Notice, match="right as far as checked; not checked: what the mask mask does"):
        assert_correct(Odd())


def test_every_look_has_a_name_in_both_languages():
    for name in (*PROBES, "numbers", "cache", "cache in pieces", "masks together"):
        assert name in SAID


def test_what_was_looked_at_and_what_does_not_apply_is_told_in_both_languages():
    class Decoder(Mine):
        def __init__(self, width=64, heads=8, causal=False):
            super().__init__(width, heads)
            self.causal = causal

        def forward(self, x, mask=None):
            n = x.size(1)
            later = torch.ones(n, n, dtype=torch.bool).tril() if self.causal else torch.ones(n, n, dtype=torch.bool)
            return super().forward(x, later if mask is None else later & (mask != 0))

    en, zh = (check(Decoder).json(lang)["adapted"] for lang in ("en", "zh"))
    for part in ("checked", "skipped"):
        assert en[part].keys() == zh[part].keys() and len(en[part]) > 4
        assert all(re.search("[\u4e00-\u9fff]", text) for text in zh[part].values()), zh[part]
        assert not any(re.search("[\u4e00-\u9fff]", text) for text in en[part].values()), en[part]
    assert zh["checked"]["mask mask"] == "掩码 mask" and "with causal=True" in zh["checked"]


def test_a_bare_file_says_nothing_of_what_is_no_attention(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\n"
        "def with_pos_embed(tensor, pos):\n"
        "    return tensor if pos is None else tensor + pos\n"
        "def attend(q, k, v):\n"
        "    return torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, -1) @ v\n",
        encoding="utf-8",
    )
    assert [report.target.rpartition(":")[2] for report in isolated_check.examine(file)] == ["attend"]
    [asked] = isolated_check.examine(file, "with_pos_embed")  # who names it gets an answer
    assert asked.verdict == "unknown"
