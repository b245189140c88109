"""Commands and tests work however they are started: descriptors 0 to 2 closed, SIGINT ignored, LC_ALL=C, any folder."""

import importlib.util
import os
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from qkv.process.streams import open_missing_streams

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="closes descriptors as POSIX shells do")


def run_without(descriptors, *arguments, cwd=None):
    """Run `qkv ARGUMENTS` with these descriptors closed; (exit code, stdout, stderr), of what is open."""

    def close():
        for descriptor in descriptors:
            os.close(descriptor)

    done = subprocess.run(
        [sys.executable, "-m", "qkv", *arguments],
        preexec_fn=close, stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", cwd=cwd, env=os.environ | {"QKV_LANG": "en"}, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_a_command_does_not_need_the_standard_streams(closed):
    code, out, err = run_without(closed, "steps", "a b")
    assert (code, err) == (0, "")
    assert bool(out) == (1 not in closed)


def test_output_is_complete_without_stderr():
    """Messages to stderr are lost, and nothing else is."""
    whole = run_without((), "see", "--demo")
    assert whole[0] == 0 and run_without((2,), "see", "--demo")[:2] == whole[:2]


def test_a_question_that_nobody_can_answer_is_an_error(tmp_path):
    assert run_without((), "learn", "1", cwd=tmp_path)[0] == 0
    (file,) = (tmp_path / "learn").glob("01_*.py")
    file.write_text(file.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    code, _, err = run_without((0,), "learn", "reset", "1", cwd=tmp_path)
    assert code == 2 and "can't ask for confirmation" in err


@pytest.mark.parametrize("verb", [("generate", "-"), ("translate", "-", "--demo")], ids=" ".join)
def test_reading_a_closed_stdin_is_an_error(verb):
    code, _, err = run_without((0,), *verb)
    assert code == 2 and "bug" not in err and err.startswith("qkv: ")


def test_mistakes_exit_with_2_when_nobody_can_read_the_sentence():
    assert run_without((2,), "no-such-verb")[:2] == (2, "")


def test_missing_descriptors_are_opened_for_children():
    script = (
        "import os, subprocess, sys\n"
        "from qkv.process.streams import open_missing_streams\n"
        "before = os.fstat(1)\n"
        "open_missing_streams()\n"
        "assert os.fstat(1) == before and os.open(os.devnull, os.O_RDONLY) > 2\n"
        "assert sys.stdin.read() == '' and sys.__stdin__ is sys.stdin\n"
        "subprocess.run([sys.executable, '-c', 'import sys; print(repr(sys.stdin.read()))'], check=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], preexec_fn=lambda: os.close(0), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "''\n", "")


def test_a_child_answers_a_program_without_streams(tmp_path):
    """A library call, where nothing has opened the descriptors: a pipe between the processes must not get 0 or 1."""
    (tmp_path / "task.py").write_text("def answer(request, send):\n    send('begins')\n    send('done', value=7)\n")
    script = (
        "from qkv.sandbox.child import Child\n"
        "with Child('task:answer', {}, 60.0, 1.0) as child:\n"
        "    for message in child.messages():\n"
        "        if message['event'] == 'done':\n"
        "            raise SystemExit(message['value'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: (os.close(0), os.close(1)), stderr=subprocess.PIPE, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (7, "")


def test_the_tests_obey_ctrl_c_however_they_were_started():
    """Children of this process stop by SIGINT; a shell without job control starts its jobs with SIGINT ignored."""
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    open_missing_streams()
    for descriptor in range(3):
        os.fstat(descriptor)


def test_the_environment_starts_in_a_folder_of_any_name_under_any_locale(tmp_path, monkeypatch):
    """Before 3.13, Python with LC_ALL=C does not start if a .pth file holds a path that is not ASCII."""
    spec = importlib.util.spec_from_file_location("setup_script", ROOT / "tools" / "setup.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    folder = tmp_path / "检出 的 目录"
    venv.create(folder / ".venv", symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / ".venv")}))
    (site / "_editable_impl_qkv.pth").write_text(str(folder / "src") + "\n", encoding="utf-8")
    (site / "other.pth").write_text("import sys\n", encoding="utf-8")
    (folder / "src").mkdir()
    (folder / "src" / "qkv.py").write_text("print('it is here')\n")
    monkeypatch.setattr(script, "ROOT", folder)
    monkeypatch.setattr(script, "VENV", folder / ".venv")
    script.make_links_relative()
    python = folder / ".venv" / "bin" / "python"
    environment = os.environ | {"LC_ALL": "C"}
    done = subprocess.run([python, "-c", "import qkv"], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("it is here\n", "")
    assert (site / "other.pth").read_text() == "import sys\n"
