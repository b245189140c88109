"""qkv check, as people type it; and assert_correct, as pytest shows it."""

import errno
import json
import os
import random
import re
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import BaseTorchFunctionMode, _get_current_function_mode_stack

from qkv.cli import main
from qkv.commands import check as command
from qkv.commands.check_targets import find_targets, read_pairs
from qkv.doctor import assert_correct
from qkv.doctor.plugin import undisturbed
from qkv.doctor.report import Finding, Remark, Report
from qkv.i18n import Problem, unpacked

pytestmark = pytest.mark.usefixtures("warm")

RIGHT = """
import torch

def attend(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return torch.softmax(scores, -1) @ v
"""
WRONG = RIGHT.replace("/ q.shape[-1] ** 0.5", "* q.shape[-1] ** 0.5").replace("attend", "blow_up_attention")


@pytest.fixture
def typed(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QKV_LANG", "en")
    monkeypatch.setattr(command, "PATIENCE", 600.0)  # no progress, however busy the machine is
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "both.py").write_text(RIGHT + WRONG)
    (tmp_path / "kept.py.bak").write_text("mine\n")
    (tmp_path / "nothing" / ".venv").mkdir(parents=True)
    (tmp_path / "nothing" / "empty.py").write_text("x = 1\n")
    (tmp_path / "nothing" / ".venv" / "right.py").write_text(RIGHT)

    def ask(*arguments):
        capfd.readouterr()
        try:
            code = main(["check", *arguments])
        except SystemExit as stop:
            code = stop.code
        return code, *capfd.readouterr()

    return ask


@pytest.fixture
def answers(monkeypatch):
    """Verdicts by name instead of a doctor; what it was asked is kept."""
    asked = []

    def examine(path, names, options, *, seconds, progress):
        asked.append((str(path), names, options, seconds))
        found = []
        for name in names or [path.stem if path.stem.startswith("only_") else "attend"]:
            verdict = next((one for one in ("wrong", "unknown", "partly") if one in name), "right")
            finding = [Finding("S1", unpacked({"en": "evidence", "zh": "证据"}), 3)] if verdict == "wrong" else []
            unseen = [Remark("cache", unpacked({"en": "its cache", "zh": "它的缓存"}))] if verdict == "partly" else []
            found.append(Report(f"{path}:{name}", verdict, finding, unseen=unseen))
        return found

    monkeypatch.setattr("qkv.doctor.isolated_check.examine", examine)
    return asked


def test_a_right_one_and_a_wrong_one(typed):
    code, out, err = typed("right.py:attend")
    assert code == 0 and out.startswith("✓ right.py:attend is right") and err == ""
    code, out, err = typed("wrong.py")
    assert code == 1 and out.startswith("✗ wrong.py:blow_up_attention") and err == ""
    assert "\n  S1  " in out and "wrong.py:5" in out and "How it was run: called as" in out
    code, out, _ = typed("wrong.py", "--lang", "zh")
    assert code == 1 and re.search("[\u4e00-\u9fff]", out.split("\n")[0])


def test_json_is_one_object_or_several(typed):
    code, out, _ = typed("wrong.py", "--json")
    plain = json.loads(out)
    assert code == 1 and plain["verdict"] == "wrong" and plain["target"] == "wrong.py:blow_up_attention"
    assert plain["findings"][0]["id"] == "S1" and plain["findings"][0]["line"] == 5
    code, out, _ = typed("both.py", "--json")
    several = json.loads(out)
    assert (
        code == 1
        and several["verdict"] == "wrong"
        and [one["verdict"] for one in several["reports"]] == ["right", "wrong"]
    )


@pytest.mark.parametrize(
    ("targets", "code", "verdict"),
    [
        (["a.py:x"], 0, "right"),
        (["a.py:partly"], 0, "partly"),
        (["a.py:x,partly"], 0, "partly"),
        (["a.py:x", "b.py:wrong"], 1, "wrong"),
        (["a.py:partly", "b.py:wrong"], 1, "wrong"),
        (["a.py:wrong,unknown"], 1, "wrong"),
        (["a.py:unknown"], 2, "unknown"),
        (["a.py:x,unknown"], 2, "unknown"),
        (["a.py:partly,unknown"], 2, "unknown"),
        (["a.py"], 0, "right"),
    ],
)
def test_exit_codes(typed, answers, targets, code, verdict):
    assert typed(*targets)[0] == code
    plain = json.loads(typed(*targets, "--json")[1])
    assert plain["verdict"] == verdict


def test_options_reach_the_doctor(typed, answers):
    args = ["--heads", "4", "--causal", "--mask-true-means", "block", "--seconds", "5"]
    typed("a.py:x", "a.py:y", *args, "--args", "dim=64, p=0.5, sizes=[1, 2], norm=rms", "--call", "q=first,mask=m")
    assert answers == [
        (
            "a.py",
            ["x", "y"],
            {
                "heads": 4,
                "causal": True,
                "mask_true_means": "block",
                "args": {"dim": 64, "p": 0.5, "sizes": [1, 2], "norm": "rms"},
                "call": {"q": "first", "mask": "m"},
            },
            5.0,
        )
    ]
    typed("a.py", "--not-causal")
    assert answers[-1] == ("a.py", None, {"causal": False}, 120.0)


def test_markdown(typed, answers):
    _, out, _ = typed("a.py:wrong", "--markdown")
    assert out.startswith("## ❌ a.py:wrong has a mistake\n\n### S1")


def test_targets():
    wanted = {
        str(file): names
        for file, names in find_targets(["a.py:X", "b.ipynb", "a.py:Y,Z", "b.ipynb:Q", "C:\\x\\m.py:A.b"]).items()
    }
    assert wanted == {"a.py": ["X", "Y", "Z"], "b.ipynb": [], "C:\\x\\m.py": ["A.b"]}


@pytest.mark.parametrize(
    "text", ["64", "dim", "dim=", "dim=f(3)", "**x", "dim=1 for", "a=1)(b=2", "x=__import__('os').system('true')", ""]
)
def test_pairs_are_never_evaluated(text):
    with pytest.raises(Problem, match="name=value"):
        read_pairs("args", text, "dim=64")


def test_the_list(typed):
    code, out, _ = typed("both.py", "--list")
    assert code == 0 and out == "both.py:attend  (line 4)\nboth.py:blow_up_attention  (line 12)\n"
    assert json.loads(typed("both.py", "--list", "--json")[1])[0] == {
        "target": "both.py:attend",
        "line": 4,
        "cell": None,
    }


TWO = """import math
import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.h, self.d_k).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c)
        return self.o((torch.softmax(scores, dim=-2) @ v).transpose(1, 2).reshape(b, n, c))
"""


@pytest.mark.parametrize("newline", [pytest.param("\n", marks=pytest.mark.slow), "\r\n"])
def test_fix_mends_one_after_another_and_keeps_the_file_as_it_was(typed, tmp_path, newline):
    file = tmp_path / "two.py"
    old = TWO.replace("\n", newline).encode()
    file.write_bytes(old)
    code, out, err = typed("two.py:MultiHeadAttention", "--fix")
    assert code == 0 and err == "", out + err
    assert "S3 mended" in out and "X1 mended" in out and "✓ two.py:MultiHeadAttention is right" in out
    assert (tmp_path / "two.py.bak").read_bytes() == old
    now = file.read_bytes().decode()
    assert "dim=-1" in now and now.count(newline) == TWO.count("\n") and "math.sqrt(c)" not in now


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_fix_keeps_permissions_and_links_and_its_backup_is_as_private(typed, tmp_path):
    (tmp_path / "deep").mkdir()
    file, link = tmp_path / "deep" / "real.py", tmp_path / "linked.py"
    file.write_text(WRONG)
    file.chmod(0o600)
    link.symlink_to("deep/real.py")
    before = os.umask(0o000)
    try:
        assert typed("linked.py", "--fix")[0] == 0
    finally:
        os.umask(before)
    assert link.is_symlink() and os.readlink(link) == "deep/real.py" and "/ q.shape" in file.read_text()
    backup = tmp_path / "linked.py.bak"
    assert backup.read_text() == WRONG and not backup.is_symlink()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (file, backup)] == [0o600, 0o600]
    assert backup.stat().st_uid == file.stat().st_uid and backup.stat().st_gid == file.stat().st_gid


def test_fix_writes_no_backup_through_a_link_to_nowhere(typed, tmp_path):
    (tmp_path / "wrong.py.bak").symlink_to(tmp_path / "elsewhere")
    code, _, err = typed("wrong.py", "--fix")
    assert code == 2 and "wrong.py.bak is there already" in err and not (tmp_path / "elsewhere").exists()


def test_ctrl_c_shows_what_was_checked_before(typed, monkeypatch):
    from qkv.doctor import isolated_check

    examine, files = isolated_check.examine, []

    def interrupted(file, *more, **named):
        files.append(file.name)
        if len(files) == 3:
            raise KeyboardInterrupt
        return examine(file, *more, **named)

    monkeypatch.setattr(isolated_check, "examine", interrupted)
    code, out, err = typed(".")
    assert code == 130 and err == "stopped after 2 of 3 files\n" and files == ["both.py", "right.py", "wrong.py"]
    assert out.endswith("right 2, as far as checked 0, wrong 1, could not be run 0\n")


def test_a_folder_ends_in_a_table(typed, answers):
    code, out, err = typed(".")
    assert code == 0 and err == "" and [path for path, *_ in answers] == ["both.py", "right.py", "wrong.py"]
    assert out.rstrip().endswith("right 3, as far as checked 0, wrong 0, could not be run 0")
    assert "✓ both.py:attend" in out


@pytest.mark.parametrize(
    ("targets", "fail_on", "code"),
    [
        (["a.py:partly"], "wrong", 0),
        (["a.py:partly"], "partly", 1),
        (["a.py:partly"], "unknown", 1),
        (["a.py:x"], "unknown", 0),
        (["a.py:wrong,unknown"], "wrong", 1),
        (["a.py:x,unknown"], "partly", 2),  # what is named has to run
        (["a.py:x,unknown"], "unknown", 2),
        (["some"], "wrong", 0),
        (["some"], "partly", 1),
        (["broken"], "wrong", 0),  # in a folder, what can't be run does not fail
        (["broken"], "partly", 0),
        (["broken"], "unknown", 2),
        (["broken/only_unknown.py"], "wrong", 2),  # a file that was named has to run
        (["broken", "broken/only_unknown.py"], "wrong", 2),
        (["lost"], "wrong", 2),  # nothing at all could be run
    ],
)
def test_what_fails_a_run(typed, answers, tmp_path, targets, fail_on, code):
    for folder, names in {"some": ["x", "partly"], "broken": ["x", "unknown"], "lost": ["unknown"]}.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"only_{name}.py").write_text(RIGHT)
    assert typed(*targets, "--fail-on", fail_on)[0] == code
    if fail_on == "wrong":
        assert typed(*targets)[0] == code


MAKER = """
import torch

def make_causal_mask(n):
    return torch.tril(torch.ones(n, n))
"""


def test_a_maker_of_masks_that_nothing_uses_is_listed_and_fails_nothing(typed, tmp_path):
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "masks.py").write_text(MAKER)
    (tmp_path / "some" / "model.py").write_text(RIGHT + MAKER)
    code, out, _ = typed("some", "--fail-on", "partly")
    assert code == 0 and "? some/masks.py:make_causal_mask  makes masks: not checked\n" in out
    assert "≈ some/model.py:make_causal_mask\n" in out and out.endswith("could not be run 1\n")
    assert typed("some", "--fail-on", "unknown")[0] == 2
    (tmp_path / "both.py").write_text(RIGHT + MAKER.replace("make_", "open_").replace("return", "open('x'); return"))
    assert typed("both.py")[0] == 0 and typed("both.py:open_causal_mask")[0] == 2  # who names it wants an answer


IGNORED = {
    "on its line": ("** 0.5", "** 0.5  # qkv: ignore[S1]"),
    "on the definition": ("mask=None):", "mask=None):  # because: qkv: ignore[M1, s1]"),
}


@pytest.mark.parametrize("place", IGNORED)
def test_a_comment_silences_a_finding(typed, tmp_path, place):
    (tmp_path / "quiet.py").write_text(WRONG.replace(*IGNORED[place]))
    code, out, _ = typed("quiet.py")
    assert code == 0 and out.startswith("≈ quiet.py:blow_up_attention: mistakes were found, and comments silence")
    assert "S1 was found (multiplied by √(head width) instead of divided), and the comment" in " ".join(out.split())
    plain = json.loads(typed("quiet.py", "--json", "--fail-on", "partly")[1])
    assert plain["verdict"] == "partly" and plain["findings"] == [] and plain["unseen"][0]["id"] == "ignored S1"
    assert typed("quiet.py", "--fail-on", "partly")[0] == 0  # else nothing could be silenced there


def test_a_comment_silences_only_what_it_names(typed, tmp_path):
    (tmp_path / "loud.py").write_text(WRONG.replace("** 0.5", "** 0.5  # qkv: ignore[S2]"))
    assert typed("loud.py")[0] == 1
    two = TWO.replace("math.sqrt(c)", "math.sqrt(c)  # qkv: ignore[S3]")
    (tmp_path / "two.py").write_text(two)
    code, out, _ = typed("two.py", "--json")
    plain = json.loads(out)
    assert code == 1 and [one["id"] for one in plain["findings"]] == ["X1"]
    assert [one["id"] for one in plain["remarks"]][-1] == "ignored S3"


def test_a_baseline_lets_known_findings_pass_until_they_are_gone(typed, tmp_path):
    code, _, err = typed(".", "--write-baseline", "known.json")
    assert code == 0 and err == "known.json lists the known findings: 2\n"
    entries = [("both.py", "blow_up_attention", "S1"), ("wrong.py", "blow_up_attention", "S1")]
    written = json.loads((tmp_path / "known.json").read_text())
    assert [(one["path"], one["object"], one["id"]) for one in written["known"]] == entries

    (tmp_path / "wrong.py").write_text("\n# a new line above\n\n" + WRONG)  # no entry has a line
    code, out, err = typed(".", "--baseline", "known.json")
    assert code == 0 and err == "" and "✗ wrong.py:blow_up_attention  S1 (8) known\n" in out
    assert out.endswith("wrong 2, could not be run 0\nknown from known.json: 2; they do not fail the run\n")

    (tmp_path / "new.py").write_text(WRONG)
    (tmp_path / "both.py").unlink()
    (tmp_path / "wrong.py").write_text(RIGHT)
    code, out, err = typed(".", "--baseline", "known.json", "--json")
    assert code == 1 and [one["known"] for r in json.loads(out)["reports"] for one in r["findings"]] == [False]
    assert err.split("\n")[1:-1] == [
        f"known.json: {file}:blow_up_attention S1 is not found any more; remove the entry"
        for file in ("both.py", "wrong.py")
    ]


def test_a_baseline_has_paths_from_its_own_folder(typed, answers, tmp_path):
    (tmp_path / "ci").mkdir()
    assert typed("wrong.py:wrong", "--write-baseline", "ci/known.json")[0] == 0
    assert json.loads((tmp_path / "ci" / "known.json").read_text())["known"][0]["path"] == "../wrong.py"
    assert typed("wrong.py:wrong", "--baseline", "ci/known.json")[0] == 0
    assert typed("right.py:x", "--baseline", "ci/known.json")[2] == (
        "known from ci/known.json: 0; they do not fail the run\n"  # the other file was not checked: nothing is stale
    )
    assert typed("wrong.py:unknown", "--baseline", "ci/known.json")[0] == 2


BASELINES = {
    "not JSON": ("{", "is not JSON"),
    "a list": ("[]", "no list `known`"),
    "another version": ('{"version": 2, "known": []}', "not a baseline of version 1"),
    "half an entry": ('{"version": 1, "known": [{"path": "a.py", "id": "S1"}]}', "entry 1"),
    "bytes": (b"\xff\xfe\x00", "is not JSON"),
    "missing": (None, "can't be read"),
}


@pytest.mark.parametrize("kind", BASELINES)
def test_a_bad_baseline_is_one_sentence(typed, answers, tmp_path, kind):
    content, sentence = BASELINES[kind]
    if content is not None:
        (tmp_path / "known.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = typed("right.py", "--baseline", "known.json")
    assert code == 2 and out == "" and sentence in err and err.count("\n") == 1 and not answers
    assert re.search("[\u4e00-\u9fff]", typed("right.py", "--baseline", "known.json", "--lang", "zh")[2])


@pytest.mark.parametrize("place", ["absent/known.json", "nothing"])
def test_a_baseline_that_cannot_be_written_is_reported_before_any_work(typed, answers, place):
    code, _, err = typed("wrong.py", "--write-baseline", place)
    assert code == 2 and "--write-baseline" in err and not answers


def test_progress_is_a_plain_line_for_each_file_when_piped(typed, answers, monkeypatch):
    monkeypatch.setattr(command, "PATIENCE", 0.0)
    code, out, err = typed(".", "--json")
    assert code == 0 and json.loads(out)["verdict"] == "right"
    assert err == "1/3 both.py\n2/3 right.py\n3/3 wrong.py\n"


def test_progress_names_the_further_objects_of_a_single_file(typed, monkeypatch):
    monkeypatch.setattr(command, "PATIENCE", 0.0)
    assert typed("both.py")[2] == "both.py:blow_up_attention\n" and typed("both.py:attend")[2] == ""


def test_progress_of_a_slow_file_appears_while_it_is_checked(typed, monkeypatch, capfd):
    import time

    lines = []

    def examine(path, names, options, *, seconds, progress):
        while not (err := capfd.readouterr().err):  # nothing else happens: the line comes by itself
            time.sleep(0.01)
        lines.append(err)
        return [Report(f"{path}:x", "right")]

    monkeypatch.setattr(command, "PATIENCE", 0.3)
    monkeypatch.setattr("qkv.doctor.isolated_check.examine", examine)
    typed("right.py", "wrong.py")
    assert lines[0] == "1/2 right.py\n"


MISTAKES = {
    ("none.py",): "there is no file none.py",
    ("right.py:atend",): "did you mean attend",
    ("right.py", "--args", "64"): "name=value",
    ("right.py", "--seconds", "0"): "--seconds is 0",
    ("right.py", "--heads", "0"): "--heads is 0",
    ("empty.py",): "nothing that looks like attention",
    ("broken.py",): "broken.py:1 is not Python",
    ("nothing",): "in nothing nothing looks like attention (files read: 1)",
    ("wrong.ipynb", "--fix"): "wrong.ipynb is a notebook",
    ("kept.py", "--fix"): "kept.py.bak is there already",
    (
        "right.py",
        "--call",
        "zzz=q",
    ): "zzz is none of q, k, v, x, memory, mask, lengths, cache, start, frequencies, positions",
    ("right.py", "--call", "q=q,query=q"): "query is none of q, k",
    ("right.py", "--call", "q=3"): "name=value",
    ("none.py", "nor_this.py"): "there is no file nor_this.py",
    ("right.py", "--mask-true-means", "yes"): "yes",
    ("right.py", "--causal", "--not-causal"): "not allowed",
    (): "required",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_told_in_both_languages(typed, tmp_path, arguments):
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    code, out, err = typed(*arguments)
    assert code == 2 and MISTAKES[arguments] in err and out == "" and "Traceback" not in err, err
    code, _, err = typed(*arguments, "--lang", "zh")
    assert code == 2 and re.search("[\u4e00-\u9fff]", err) and "此说明只有英文" not in err, err


@pytest.mark.parametrize(
    "arguments", [a for a in MISTAKES if a and MISTAKES[a] not in ("yes", "not allowed")], ids=" ".join
)
def test_a_mistake_is_json_too(typed, tmp_path, arguments):
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    code, out, err = typed(*arguments, "--json")
    assert code == 2 and MISTAKES[arguments] in err, err
    told = json.loads(out)
    reports = told.get("reports", [told])
    assert told["verdict"] == "unknown" and MISTAKES[arguments] in reports[-1]["problem"]
    for report in reports:
        assert (report["verdict"], report["findings"], report["remarks"], report["adapted"]) == ("unknown", [], [], {})
    assert MISTAKES[arguments] not in typed(*arguments, "--json", "--lang", "zh")[1]


def test_a_file_that_is_not_there_does_not_stop_the_others(typed):
    code, out, err = typed("right.py", "none.py")
    assert code == 2 and out.startswith("✓ right.py:attend is right") and err == ""
    assert out.endswith("? none.py could not be checked\n\n  there is no file none.py\n")
    code, out, err = typed("none.py", "wrong.py", "--json")
    several = json.loads(out)
    assert code == 1 and several["verdict"] == "wrong" and "there is no file none.py" in err
    assert [(one["target"], one["verdict"]) for one in several["reports"]] == [
        ("none.py", "unknown"),
        ("wrong.py:blow_up_attention", "wrong"),
    ]


def test_a_file_that_may_not_be_read_does_not_stop_the_others(typed, monkeypatch):
    from qkv.doctor.source import file as source

    def refuse(path, text=source.Path.read_bytes):
        if path.name == "wrong.py":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return text(path)

    monkeypatch.setattr(source.Path, "read_bytes", refuse)
    code, out, err = typed("wrong.py", "right.py", "--json")
    assert code == 2 and [one["verdict"] for one in json.loads(out)["reports"]] == ["unknown", "right"]
    assert "wrong.py can't be read: permission denied" in err


@pytest.mark.parametrize(
    ("target", "code", "shown"), [("right.py", 0, "--json"), ("wrong.py", 1, "--markdown"), ("none.py", 2, "--json")]
)
def test_the_exit_code_outlives_a_reader_that_leaves(typed, target, code, shown):
    read, write = os.pipe()
    os.close(read)  # nobody reads at all
    asked = [sys.executable, "-m", "qkv", "check", target, shown]
    done = subprocess.run(asked, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == code and "Broken" not in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.cold
def test_the_users_code_and_torch_stay_out_of_this_process(typed):
    code = "import sys; from qkv.cli import main; c = main(['check', 'right.py']); assert 'torch' not in sys.modules; sys.exit(c)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Scaled(nn.Module):
    """Right, and careless with everything around it."""

    def __init__(self, width=24, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.register_buffer("calls", torch.zeros(()))

    def power(self):
        return 0.5

    def forward(self, x):
        self.calls += 1
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** self.power(), -1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Unscaled(Scaled):
    def power(self):
        return 0.0


def test_assert_correct_leaves_everything_as_it_was():
    module = Scaled().train()
    module.q.eval()
    module.k.weight.requires_grad_(False)
    module.o.weight.grad = torch.ones(24, 24)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    identities = {name: id(value) for name, value in module.named_parameters()}
    state = torch.get_rng_state()
    with torch.no_grad():
        assert_correct(module, heads=4)
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state) and torch.get_default_dtype() == torch.float32
    assert module.training and not module.q.training
    assert not module.k.weight.requires_grad and torch.equal(module.o.weight.grad, torch.ones(24, 24))
    for name, value in module.state_dict().items():
        assert value.dtype == torch.float32 and torch.equal(value, before[name]), name
    assert identities == {name: id(value) for name, value in module.named_parameters()}


def test_undisturbed_puts_back_what_a_check_may_change():
    module = Scaled()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    with undisturbed(module):
        torch.manual_seed(5)
        np.random.seed(5)
        random.seed(5)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        BaseTorchFunctionMode().__enter__()
        module.double().eval()
        for value in module.state_dict().values():
            value.fill_(7)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == states[1:]
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled() and module.training
    assert _get_current_function_mode_stack() == []
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_assert_correct_raises_the_diagnosis():
    with pytest.raises(AssertionError) as raised:
        assert_correct(Unscaled(), heads=4)
    text = str(raised.value)
    assert text.startswith("✗ ") and "S2" in text and "How it was run" in text
    with pytest.raises(AssertionError, match="could not check"):
        assert_correct(3)


def test_pytest_shows_the_report_and_not_our_frames(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        textwrap.dedent(
            """
            import torch
            from qkv.doctor import assert_correct
            def attend(q, k, v):
                return torch.softmax(q @ k.mT, -1) @ v
            def test_my_attention():
                assert_correct(attend)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "S2" in done.stdout and "How it was run" in done.stdout and ">       assert_correct(attend)" in done.stdout
    assert "raise AssertionError" not in done.stdout and "undisturbed" not in done.stdout, done.stdout
