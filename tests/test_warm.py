"""A fork of a process that has torch is like a process that was started, in all that tests ask of one."""

import os
import signal
import subprocess
import sys

import pytest

from tests import warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks only on Linux")

PROGRAMS = {
    "an exit code": "import sys; print('out'); print('错', file=sys.stderr); sys.exit(3)",
    "a sentence as exit code": "raise SystemExit('no')",
    "an error": "1 / 0",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "what is typed": "print(input()[::-1])",
    "where it is": "import os, sys; print(os.getcwd(), os.environ['HERE'], sys.argv, os.getsid(0) == os.getpid())",
    "at its end": "import atexit, threading, time; atexit.register(print, 'last'); "
    "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "open files": "import os; print([n for n in range(40) if os.path.exists(f'/proc/self/fd/{n}')][:4])",
}


def answer(popen, code, tmp_path):
    options = dict(cwd=tmp_path, env={**os.environ, "HERE": "there"}, text=True, start_new_session=True)
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process = popen([sys.executable, "-c", code, "word"], **options, **pipes)
    out, err = process.communicate("typed\n", timeout=60)
    return process.returncode, out, err.splitlines()[-1:]


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_a_fork_prints_what_a_started_process_prints(code, tmp_path):
    assert answer(warm.Popen, code, tmp_path) == answer(subprocess.Popen, code, tmp_path)


def test_it_has_torch_already_and_can_be_ended(tmp_path):
    assert answer(warm.Popen, "import sys; print('torch' in sys.modules)", tmp_path)[1] == "True\n"
    process = warm.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == -signal.SIGTERM == process.poll()


def test_files_keep_their_numbers_and_modules_are_importable(tmp_path):
    (tmp_path / "mine.py").write_text("import os, sys\nos.write(int(sys.argv[1]), b'heard')\n")
    for target in (["-m", "mine"], [str(tmp_path / "mine.py")]):
        read, write = os.pipe()
        with warm.Popen([sys.executable, *target, str(write)], pass_fds=[write], cwd=tmp_path) as process:
            assert process.wait(timeout=60) == 0 and os.read(read, 9) == b"heard"
        os.close(read)
        os.close(write)


def test_what_a_fork_can_not_be_is_started(tmp_path):
    for command in (["-S", "-c", "0"], ["-W", "error", "-c", "0"], ["-X", "utf8", "-c", "0"], ["--version"]):
        assert warm.parsed([sys.executable, *command]) is None
    assert warm.parsed(["true"]) is None and warm.parsed("true") is None
    with warm.Popen([sys.executable, "-S", "-c", "import sys; sys.exit('torch' in sys.modules)"]) as process:
        assert process.wait(timeout=60) == 0
