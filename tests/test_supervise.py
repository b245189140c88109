"""tests/supervise.py ends everything that a run of the tests started, however the run ends."""

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.supervise import is_running, kill

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are found on Linux only")

SUPERVISE = [sys.executable, "-S", str(Path(__file__).with_name("supervise.py")), sys.executable, "-S", "-c"]
# A process that hides: a session of its own, no environment, and its parent gone.
HIDE = "import os, sys\nif os.fork() == 0:\n os.setsid()\n os.execve('/bin/sleep', ['sleep', '3600.5'], {})\n"


def supervised(script):
    """The command line, with half a second of grace: what stays in these tests stays for good."""
    program = SUPERVISE[2]
    impatient = f"import runpy, sys; m = runpy.run_path({program!r}); m['main'].__globals__['GRACE'] = 0.5; "
    impatient += "sys.exit(m['main'](sys.argv[1:]))"
    return [sys.executable, "-S", "-c", impatient, *SUPERVISE[3:], script]


@pytest.mark.parametrize(
    "script, code", [("", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_exit_code_is_the_commands_own(script, code):
    done = subprocess.run(supervised(script), capture_output=True, text=True, timeout=60)
    assert done.returncode == code and "by the clock" in done.stdout and "left running" not in done.stdout


def test_leftover_processes_are_named_and_killed_and_the_run_fails():
    done = subprocess.run(supervised(HIDE), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "sleep 3600.5" in done.stdout
    pid = int(done.stdout.splitlines()[-1].split()[0])
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_that_ends_by_itself_is_not_a_leftover():
    done = subprocess.run([*SUPERVISE, HIDE.replace("3600.5", "0.3")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("killed", "number"), [("supervisor", signal.SIGTERM), ("supervisor", signal.SIGKILL), ("make", signal.SIGKILL)]
)
def test_a_run_that_is_ended_ends_its_processes(killed, number, tmp_path):
    command = supervised("import os, time; print(os.getpid(), os.getppid(), flush=True); time.sleep(3600)")
    if killed == "make":
        recipe = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("TEST :="))
        begin = "exec env" if "exec env" in recipe else "env"
        rules = f"all:\n\t@{begin} A=1 {shlex.join(command).replace('$', '$$')}\n"
        (tmp_path / "Makefile").write_text(rules, encoding="utf-8")
        command = ["make", "-s", "-C", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    started = [int(word) for word in process.stdout.readline().split()]
    process.send_signal(number)
    assert process.wait(timeout=60) == (143 if number == signal.SIGTERM else -9)
    process.stdout.close()
    deadline = time.monotonic() + 60
    while running := [pid for pid in started if is_running(pid)]:
        if time.monotonic() > deadline:
            kill(running)
            pytest.fail("it outlived the one that started it")
        time.sleep(0.1)
