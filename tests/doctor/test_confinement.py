"""What a checked file may not do to the rest of the machine, and which reports the parent does not believe."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from qkv.doctor.isolated_check import examine
from qkv.doctor.numbers import evidence
from qkv.doctor.numbers.oracle import AttentionForm, attention
from qkv.sandbox import child
from qkv.sandbox.confine import MACHINES, build_filter
from tests.supervise import descendants

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")
STUB = "tests.doctor.stub:check"
HEAD = "import ctypes, gc, json, math, os, sys, threading, time\nimport numpy as np\nimport torch\n"
RIGHT = "    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v\n"
UNSCALED = "    return torch.softmax(q @ k.mT, -1) @ v\n"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checked(tmp_path, monkeypatch, warm):
    """Check a function `attend` with these lines and give its report."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(lines, end=RIGHT, **more):
        path = tmp_path / "mine.py"
        path.write_text(HEAD + "def attend(q, k, v):\n" + _indented(lines) + end)
        (report,) = examine(path, "attend", **more)
        return report

    return run


def _indented(lines):
    return textwrap.indent(textwrap.dedent(lines).strip() + "\n", "    ")


@pytest.fixture
def hook_alone(monkeypatch):
    """As on a system whose kernel restricts nothing."""
    monkeypatch.setattr(child, "KERNEL", False)


@pytest.fixture
def outside(tmp_path):
    """A file of the user's, which no check may change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "notes.txt").chmod(0o644)
    yield folder / "notes.txt"
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "notes.txt").stat().st_mode & 0o777 == 0o644  # as it was set, whatever the umask


# By C code, which an audit hook does not see. Each gives -1 where the kernel refuses it.
BY_C = {
    "write": "libc.open(path, os.O_WRONLY | os.O_TRUNC)",
    "create": "libc.open(path + b'.new', os.O_WRONLY | os.O_CREAT, 0o600)",
    "truncate": "libc.truncate(path, 0)",
    "empty": "libc.open(path, os.O_RDONLY | os.O_TRUNC)",
    "remove": "libc.unlink(path)",
    "rename": "libc.rename(path, path + b'.new')",
    "link": "libc.link(path, path + b'.new')",
    "symlink": "libc.symlink(path, path + b'.new')",
    "mkdir": "libc.mkdir(path + b'.new', 0o700)",
    "chmod": "libc.chmod(path, 0o600)",
    "fork": "libc.fork()",
    "run": "libc.execv(b'/bin/true', (ctypes.c_char_p * 2)(b'true', None))",
    "kill the parent": "libc.kill(os.getppid(), 9)",
    "kill its group": "libc.kill(0, 9)",
    "signal the parent by a pipe": "libc.fcntl(os.pipe()[0], 8, os.getppid())",
    "limit the parent": "libc.prlimit(os.getppid(), 0, (ctypes.c_long * 2)(1, 1), None)",
    "slow the parent down": "libc.setpriority(0, os.getppid(), 19)",
    "read the parent": "libc.open(b'/proc/%d/mem' % os.getppid(), os.O_RDONLY)",
    "open a socket": "libc.socket(2, 1, 0)",
    "leave the session": "libc.setsid()",
    "outlive the parent": "libc.prctl(1, 0, 0, 0, 0)",
    "enter a namespace": "libc.unshare(0x10000000)",
}


@LINUX
def test_the_kernel_refuses_what_c_code_does(checked, outside):
    lines = [f"path = {str(outside)!r}.encode()", "libc = ctypes.CDLL(None)", "results = {}"]
    lines += [f"results[{name!r}] = {call}" for name, call in BY_C.items()]
    lines += ["if any(result != -1 for result in results.values()):", "    raise ValueError(f'allowed: {results}')"]
    report = checked("\n".join(lines), doctor=STUB)
    assert report.verdict == "right", str(report)


# By Python code: the sentence says what was refused.
BY_PYTHON = {
    "open(path, 'w')": "writing files",
    "open(path, 'a')": "writing files",
    "os.open(path, os.O_RDWR)": "writing files",
    "np.save(path, np.zeros(3))": "writing files",
    "os.remove(path)": "os.remove",
    "os.rename(path, path + '.new')": "os.rename",
    "os.link(path, path + '.new')": "os.link",
    "os.symlink(path, path + '.new')": "os.symlink",
    "os.mkdir(path + '.new')": "os.mkdir",
    "os.truncate(path, 0)": "os.truncate",
    "os.chmod(path, 0o600)": "os.chmod",
    "__import__('shutil').rmtree(os.path.dirname(path))": "shutil.rmtree",
    "__import__('resource').prlimit(os.getppid(), 0, (1, 1))": "resource.prlimit",
    "__import__('subprocess').run(['true'])": "subprocess.Popen",
    "__import__('socket').create_connection(('127.0.0.1', 9))": "socket.getaddrinfo",
}


@pytest.mark.parametrize("kernel", [True, False])
def test_a_refused_action_is_named_with_its_line(checked, outside, monkeypatch, kernel):
    monkeypatch.setattr(child, "KERNEL", kernel)
    actions = BY_PYTHON if kernel else {**BY_PYTHON, "ctypes.CDLL(None)": "ctypes.dlopen"}
    for action, name in actions.items():
        report = checked(f"path = {str(outside)!r}\n{action}\n", doctor=STUB)
        problem = report.problem.say("en")
        assert f"{name} is not allowed while qkv checks a file" in problem, problem
        assert "Checked code may not write" in problem and "mine.py:6" in problem and action in problem


def test_the_doctor_names_it_too(checked, outside):
    report = checked(f"open({str(outside)!r}, 'w')\n")
    problem = report.problem.say("en")
    assert "writing files is not allowed" in problem and "(line 5)" in problem and "--args" not in problem
    assert "临时文件夹" in report.problem.say("zh")


@LINUX
def test_what_only_the_kernel_refuses_is_explained(checked, outside):
    report = checked(f"os.mkfifo({str(outside)!r} + '.new')\n", doctor=STUB)
    assert "PermissionError" in report.problem.say("en") and "Checked code may not write" in report.problem.say("en")


@LINUX
def test_a_server_is_not_reached(checked):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        report = checked(f"s = __import__('socket').socket()\ns.connect({server.getsockname()!r})\n", doctor=STUB)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert report.verdict == "unknown" and "Checked code may not" in report.problem.say("en")


# What still works.
ALLOWED = {
    "threads": """
        threads = [threading.Thread(target=sum, args=([1, 2],)) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """,
    "an event loop": """
        import asyncio
        asyncio.run(asyncio.sleep(0))
    """,
    "its temporary folder": """
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + '/a', 'w') as file: file.write('x')
            os.rename(folder + '/a', folder + '/b')
            assert open(folder + '/b').read() == 'x'
        open(os.devnull, 'w').write('x')
    """,
    "matplotlib": """
        import matplotlib.pyplot as plt
        plt.imshow(np.eye(3))
        plt.close()
    """,
}


@pytest.mark.parametrize("what", ALLOWED)
def test_what_is_harmless_still_gets_its_verdict(checked, what):
    report = checked(ALLOWED[what])
    assert report.verdict == "right", str(report)


def test_c_functions_may_be_called_where_the_kernel_restricts_them(checked):
    report = checked("ctypes.CDLL(None).getpid()\n")
    assert report.verdict == ("right" if sys.platform == "linux" else "unknown")


@pytest.mark.parametrize("end", [RIGHT, UNSCALED])
def test_the_doctor_works_with_the_hook_alone(checked, hook_alone, end):
    report = checked("pass\n", end)
    assert report.verdict == ("right" if end is RIGHT else "wrong"), str(report)


def test_its_temporary_folder_is_removed(checked, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    report = checked("import tempfile\nos.makedirs(tempfile.mkdtemp() + '/a/b')\n", doctor=STUB)
    assert report.verdict == "right", str(report)
    assert not list((tmp_path / "tmp").iterdir())


@LINUX
def test_threads_have_a_limit(checked):
    """The kernel exempts root from it, so only the limit itself is tested."""
    most = "resource.getrlimit(resource.RLIMIT_NPROC)[1]"
    report = checked(f"import resource\nif not 0 < {most} < 20_000: raise ValueError({most})\n", doctor=STUB)
    assert report.verdict == "right", str(report)


def test_a_limit_on_time_that_it_raises_holds_all_the_same(checked):
    lines = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (-1, -1))\nwhile True: pass\n"
    report = checked(lines, doctor=STUB, seconds=1)
    assert "did not finish" in report.problem.say("en")


@LINUX
@pytest.mark.cold
def test_processes_it_started_end_with_it(checked, hook_alone, tmp_path):
    """Where neither kernel nor hook refuse the fork: a process that left the group is ended all the same."""
    note = str(tmp_path / "pid")
    text = f"""
        for hook in gc.get_objects():
            if type(hook).__name__ == "AuditHook": hook.on = False
        libc = ctypes.CDLL(None)
        if libc.fork() == 0:
            libc.setsid()
            open({note!r}, 'w').write(str(libc.getpid()))
            libc.sleep(1000)
        while not os.path.exists({note!r}): time.sleep(0.01)
        time.sleep(0.1)
    """
    report = checked(text, doctor=STUB)
    assert report.verdict == "right", str(report)
    assert _ended(int((tmp_path / "pid").read_text()))


@LINUX
@pytest.mark.cold
def test_it_ends_with_a_parent_that_is_killed(tmp_path):
    """Also if the file ignores signals, closes the pipes to its parent and holds Python's lock in C."""
    path = tmp_path / "mine.py"
    lines = """
        import signal
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        os.closerange(3, 100)
        open(__import__('tempfile').gettempdir() + '/ready', 'w')
        ctypes.PyDLL(None).sleep(1000)
    """
    path.write_text(HEAD + "def attend(q, k, v):\n" + _indented(lines) + RIGHT)
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-m", "qkv", "check", f"{path}:attend"]
    parent = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while not list(tmp_path.glob("tmp/*/ready")) and time.monotonic() < until:
            time.sleep(0.05)
        (pid,) = descendants(parent.pid)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert _ended(pid)


def _ended(pid):
    """Whether a process is gone within two seconds."""
    for _ in range(40):
        state = Path(f"/proc/{pid}/status")
        if not state.exists() or "zombie" in state.read_text():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_checks_the_architecture_and_jumps_within_itself(machine):
    arch, column, _ = MACHINES[machine]
    code = build_filter(arch, column, 1234)
    rows = [code[i : i + 8] for i in range(0, len(code), 8)]
    assert len(rows) < 4096 and arch.to_bytes(4, sys.byteorder) == rows[1][4:]
    assert rows[-1][:2] == b"\x06\x00"  # every path ends in a return
    for place, row in enumerate(rows):
        if row[0] & 7 == 5:
            assert place + 1 + max(row[2], row[3]) < len(rows)


# Forged reports. The file finds the number that our messages carry in the frames above it, and the pipe.
FORGE = """
    frame, send = sys._getframe(), None
    while frame is not None:
        send = frame.f_locals.get('send', send)
        frame = frame.f_back
    report = {report}
    send("report", name="attend", report=report{more})
"""
FORGED = {"target": "mine.py:attend", "verdict": "right"}


def _forged(report, more=""):
    return textwrap.dedent(FORGE).format(report=repr(report), more=more)


def test_a_forged_right_is_not_believed(checked):
    report = checked(_forged(FORGED), UNSCALED)
    assert report.verdict == "unknown" and report.exit_code == 2
    assert "do not confirm" in report.problem.say("en") and "不能证实" in report.problem.say("zh")
    report = checked(_forged({**FORGED, "adapted": {"kind": "attention", "compared": "1e-16"}}), UNSCALED)
    assert report.verdict == "unknown"


def test_numbers_that_are_not_attention_do_not_confirm_it(checked):
    """The file sends its own output as the context: it is not what q, k and v give."""
    lines = """
        from qkv.doctor.numbers.evidence import Evidence
        from qkv.doctor.numbers.oracle import AttentionForm
        made = (torch.softmax(q @ k.mT, -1) @ v).detach().numpy()
        form = AttentionForm(heads=q.shape[1], split="given", merge="given")
        sent = Evidence(*(x.detach().numpy() for x in (q, k, v)), form, made, "float64").to_dict()
    """
    report = checked(textwrap.dedent(lines) + _forged(FORGED, ", evidence=sent"), UNSCALED)
    assert report.verdict == "unknown"


@pytest.mark.parametrize(
    "report", [5, None, [], {}, {"verdict": "right"}, {**FORGED, "adapted": 5}, {**FORGED, "findings": [{"id": "zz"}]}]
)
def test_a_forged_report_that_is_none_gets_an_answer(checked, report):
    assert checked(_forged(report), UNSCALED).verdict == "unknown"


def test_a_report_about_something_else_is_dropped(checked):
    forged = _forged(FORGED).replace(
        'send("report", name="attend"', 'send("begins", name="x"); send("report", name="x"'
    )
    assert checked(forged, UNSCALED).verdict == "wrong"


def sent(**changes):
    """Evidence of true attention, with some values changed."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, 3, 8)) for _ in range(3))
    form = AttentionForm(heads=2)
    whole = evidence.Evidence(q, k, v, form, attention(q, k, v, form), "float64").to_dict()
    whole["form"] |= changes.pop("form", {})
    return json.loads(json.dumps(whole | changes))


def test_true_numbers_are_confirmed():
    assert evidence.is_confirmed(sent())


@pytest.mark.parametrize(
    "changes",
    [
        {"form": {"softmax": "queries"}},
        {"form": {"heads": 4}},
        {"form": {"heads": 0}},
        {"form": {"heads": 1e9}},
        {"form": {"scale": 1.0}},
        {"form": {"scale": float("nan")}},
        {"form": {"unknown": 1}},
        {"form": {"split": ["hd"]}},
        {"q": {"shape": [2, 3, 8], "type": "object", "data": ""}},
        {"q": {"shape": [2, 3, 9], "type": "float64", "data": ""}},
        {"q": {"shape": [-1, 3, 8], "type": "float64", "data": ""}},
        {"context": evidence.pack(np.full((2, 3, 8), np.nan))},
        {"pieces": 5},
        {"pieces": [5]},
        {"dtype": []},
        {"q": evidence.pack(np.zeros((1, 100_000, 1))), "k": evidence.pack(np.zeros((1, 100_000, 1)))},
    ],
)
def test_other_numbers_are_not(changes):
    assert not evidence.is_confirmed(sent(**changes))
    assert not evidence.is_confirmed(changes)


def test_evidence_too_large_is_not_sent():
    x = np.zeros((1, 1, evidence.LARGEST))
    assert evidence.Evidence(x, x, x, AttentionForm(), x, "float64").to_dict() is None
