"""What a file does can't crash or hang the doctor, and each such thing is reported in a sentence.

What the process may not do to others is in test_confinement.py.
"""

import faulthandler
import json
import os
from pathlib import Path

import pytest

from qkv.doctor.isolated_check import examine
from qkv.i18n import Problem
from qkv.sandbox.child import End

pytestmark = pytest.mark.usefixtures("warm")
STUB = "tests.doctor.stub:check"
HEAD = "import os, sys, time, threading\nimport torch\n"
BODY = "    return torch.softmax(q @ k.mT, -1) @ v\n"


@pytest.fixture(autouse=True)
def stub_can_be_imported(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))


@pytest.fixture
def examined(tmp_path):
    def run(text, name="attend", seconds=30, **more):
        path = tmp_path / "mine.py"
        path.write_text(HEAD + text, encoding="utf-8")
        return examine(path, name, seconds=seconds, doctor=more.pop("doctor", STUB), **more)

    return run


def function(*lines, name="attend"):
    return f"def {name}(q, k, v):\n" + "".join(f"    {line}\n" for line in lines) + BODY


def test_the_doctor_sees_what_was_asked(examined):
    seen = []
    (report,) = examined(
        "class A(torch.nn.Module):\n    def __init__(self, n): super().__init__()\n    def forward(self, x): return x\n",
        "A",
        options={"heads": 3, "args": {"n": 4}},
        progress=seen.append,
    )
    assert report.verdict == "right" and report.exit_code == 0
    assert report.adapted["heads"] == 3 and report.adapted["args"] == {"n": 4}
    assert report.target.endswith("mine.py:A") and seen == ["A"]


def test_a_finding_comes_with_its_line(examined):
    (report,) = examined("def attend(q, k, v):\n    return q / 0\n")
    assert report.verdict == "wrong" and report.exit_code == 1
    (finding,) = report.findings
    assert (finding.id, finding.line, finding.cell, finding.code) == ("X5", 3, None, "def attend(q, k, v):")


def test_a_notebook_counts_lines_within_cells(tmp_path):
    cells = ["import torch\n", "\n\ndef attend(q, k, v):\n    return q / 0\n"]
    cells = [{"cell_type": "code", "source": cell} for cell in cells]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    (report,) = examine(tmp_path / "n.ipynb", "attend", doctor=STUB)
    (finding,) = report.findings
    assert (finding.cell, finding.line) == (2, 3) and "n.ipynb cell 2, line 3" in str(report)


# What the code does : what is said of it
RAISES = {
    "sys.exit(0)": ("It calls sys.exit (", "sys.exit(0)"),
    "raise SystemExit": ("It calls sys.exit (", "SystemExit"),
    "raise KeyboardInterrupt": ("stopped with an error", "KeyboardInterrupt"),
    "raise ValueError('a\\nb')": ("ValueError: a", "--args"),
    "attend(q, k, v)": ("RecursionError", "--args"),
    "torch.zeros(10**13)": ("asked for more memory", "torch.zeros(10**13)"),
    "[0] * 10**13": ("asked for more memory", "MemoryError"),
    "import einops_absent": ("needs the package einops_absent", "pip install einops_absent"),
    "import tensorflow.nope_absent": ("It is written for tensorflow", "PyTorch and NumPy"),
    "os.fork()": ("os.fork is not allowed", "os.fork()"),
    "os.kill(os.getppid(), 9)": ("os.kill is not allowed", "os.kill"),
    "os.system('true')": ("os.system is not allowed", "os.system"),
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')": (
        "socket.getaddrinfo is not allowed",
        "urlopen",
    ),
    "open('/tmp/qkv-never', 'w')": ("writing files is not allowed", "Checked code may not write"),
    "os.remove('/tmp/qkv-never')": ("os.remove is not allowed", "os.remove("),
    "undefined_name": ("NameError", "undefined_name"),
    "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()": ("stopped with an error", "\nE\n"),
    "raise ImportError": ("stopped with an error", "ImportError"),
}
RIGHT = {
    "prints a million lines": "print('\\n'.join(['x'] * 1000000)); sys.stderr.write('y' * 10**7); os.write(1, b'z' * 10**6)",
    "reads what nobody types": "assert sys.stdin.read() == ''",
    "leaves a thread": "threading.Thread(target=time.sleep, args=(1000,)).start()",
    "leaves a hook": "import atexit; atexit.register(time.sleep, 1000)",
    "changes directory": "os.chdir('/')",
    "replaces torch": "torch.erf = lambda *a, **k: torch.eye(5)",
    "replaces a method": "torch.Tensor.tolist = lambda s: [0.5, 0.5]",
    "replaces the doctor": "import qkv.doctor.report as r; r.wrap = print",
    "needs a card": "q, k, v = q.cuda(), k.to('cuda'), v.to(torch.device('cuda'))",
}


@pytest.fixture(scope="module")
def all_at_once(tmp_path_factory):
    """One process for all that does not kill it."""
    path = tmp_path_factory.mktemp("hostile") / "many.py"
    lines = [*RAISES, *RIGHT.values()]
    functions = [function(line.replace("attend(", f"f{i}("), name=f"f{i}") for i, line in enumerate(lines)]
    path.write_text(HEAD + "\n".join(functions), encoding="utf-8")
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    try:
        reports = examine(path, [f"f{i}" for i in range(len(lines))], doctor=STUB)
    finally:
        del os.environ["PYTHONPATH"]
    return dict(zip([*RAISES, *RIGHT], reports, strict=True))


@pytest.mark.parametrize("does", RAISES)
def test_what_stops_it_is_told(all_at_once, does):
    report = all_at_once[does]
    assert report.verdict == "unknown" and report.exit_code == 2 and report.problem is not None
    for part in RAISES[does]:
        assert part in report.problem.say("en"), report.problem.say("en")
    assert report.problem.say("zh") != report.problem.say("en")
    assert "Traceback" not in report.problem.say("en")


@pytest.mark.parametrize("does", RIGHT)
def test_what_does_not_matter(all_at_once, does):
    assert all_at_once[does].verdict == "right", str(all_at_once[does])
    told = [remark for remark in all_at_once[does].remarks if remark.id == "patched"]
    assert bool(told) == does.startswith("replaces")


def test_an_endless_loop_is_told_with_its_line_and_the_others_go_on(examined):
    text = function("while True:", "    q = q + 1", name="a") + function(name="b") + function("while 1: pass", name="c")
    reports = examined(text, ["b", "a", "c", "b"], seconds=1)
    assert [report.verdict for report in reports] == ["right", "unknown", "unknown", "right"]
    assert "did not finish within 1 s of computing while it was running" in reports[1].problem.say("en")
    assert ("q = q + 1" in reports[1].problem.say("en")) or ("while True:" in reports[1].problem.say("en"))
    assert "--seconds 3" in reports[1].problem.say("en") and "计算 1 秒后仍没有完成" in reports[1].problem.say("zh")
    assert "while 1: pass" in reports[2].problem.say("en")


def test_a_line_is_found_in_a_file_of_any_name(tmp_path):
    """faulthandler writes names in ASCII."""
    name = "/é 临时/😀 'mine'.py"
    names = {"faulthandler": faulthandler}
    exec(compile("def dump(file):\n    faulthandler.dump_traceback(file)\n", name, "exec"), names)
    with open(tmp_path / "trace", "w+") as file:
        names["dump"](file)
        file.seek(0)
        assert End(None, file.read()).line(name) == 2


def test_an_endless_loop_while_loading(examined):
    (report,) = examined("def loop():\n    while True:\n        pass\nsize = loop()\n" + function("size"), seconds=1)
    assert "while it was loading" in report.problem.say("en") and "mine.py:" in report.problem.say("en")


DEATHS = {
    "os._exit(0)": "ended the program by itself (exit code 0) while it was running",
    "os._exit(5)": "(exit code 5)",
    "import ctypes; ctypes.string_at(0)": "crashed the interpreter (SIGSEGV) while it was running",
    "os.abort()": "SIGABRT",
    "os.closerange(3, 200)": "without an answer",
}


def test_a_process_that_dies_takes_no_other_with_it(examined):
    names = [f"f{i}" for i in range(len(DEATHS))]
    text = "".join(function(line, name=name) for line, name in zip(DEATHS, names, strict=True))
    *died, other = examined(text + function(name="other"), [*names, "other"])
    for (line, says), report in zip(DEATHS.items(), died, strict=True):
        assert report.verdict == "unknown" and says in report.problem.say("en"), report.problem.say("en")
        assert ("SIG" in says) == (line in report.problem.say("en"))
    assert other.verdict == "right"  # by the last of several processes


def test_a_forged_answer_is_no_answer(examined):
    forged = json.dumps(
        {"nonce": "0" * 32, "event": "report", "name": "attend", "report": {"target": "x", "verdict": "right"}}
    )
    (report,) = examined(
        "def attend(q, k, v):\n"
        f"    forged = {forged!r}\n"
        "    for fd in range(1, 64):\n"
        "        try: os.write(fd, b'\\n' + forged.encode() + b'\\n' + b'{garbage')\n"
        "        except OSError: pass\n"
        "    return q / 0\n"
    )
    assert report.verdict == "wrong"


def test_what_a_file_replaces_is_put_back(examined):
    (report,) = examined(
        "def harm():\n    torch.softmax = lambda *a: torch.zeros(2)\n    torch.isfinite = lambda x: torch.ones(1)\n    return 1\n"
        "size = harm()\ndef attend(q, k, v):\n    return q / 0 * size\n"
    )
    assert report.verdict == "wrong"
    (remark,) = report.remarks
    assert "torch.softmax" in remark.text.say("en") and "judged with the original" in remark.text.say("en")


def test_memory_has_a_limit(examined):
    text = function("x = torch.ones(200_000_000)", name="much") + function("x = torch.ones(20_000_000)", name="some")
    much, some = examined(text, ["much", "some"], gigabytes=0.25)
    assert "asked for more memory" in much.problem.say("en")
    assert some.verdict == "right"


@pytest.mark.cold
def test_a_file_of_the_same_name_as_ours_where_the_person_stands(examined, tmp_path, monkeypatch):
    for name in ("json", "torch", "numpy", "qkv", "secrets"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('mine')\n")
    monkeypatch.chdir(tmp_path)
    (report,) = examined(function())
    assert report.verdict == "right"


def test_the_doctors_own_mistakes_are_ours(examined):
    (report,) = examined(function(), doctor="tests.doctor.stub:not_there")
    assert "could not start" in report.problem.say("en") and "not_there" in report.problem.say("en")
    (report,) = examined(function(), options={"nonsense": 1})
    assert "a mistake of qkv's" in report.problem.say("en")


def test_what_cannot_be_read_is_a_problem_before_anything_runs(tmp_path):
    with pytest.raises(Problem, match="there is no file"):
        examine(tmp_path / "none.py")
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(Problem, match="nothing that looks like attention"):
        examine(tmp_path / "a.py")
    with pytest.raises(Problem, match="nor any other"):
        examine(tmp_path / "a.py", "attend")
