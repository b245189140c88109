"""Every test starts from the same seed, with uninitialised memory full of NaN so that reading it shows.

Tests that need something that a machine may lack have the mark `needs`; where it is missing they are not run, and the end
says how many. With --furnished they alone are run, and a missing thing is an error: so a run without them on a bare
machine and one with --furnished on another run every test once.
"""

import gc
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from torch.overrides import _get_current_function_mode_stack, _pop_mode

from qkv.i18n import language
from qkv.process.streams import open_missing_streams
from qkv.train.machine import compiler
from tests.supervise import descendants, kill

# However the tests were started, what they start has standard streams and stops by Ctrl-C.
open_missing_streams()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("qkv", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("qkv")
collect_ignore_glob = ["fixtures/2*"]

# In the order in which they begin when several processes share the tests; all others follow.
LONG = [
    Path(__file__).parent / name
    for name in ("doctor/test_doctor.py", "train/test_parallel.py", "docs/test_chapters.py")
]

# The files whose browser tests `make test` runs; those of the others are slow, and .ci/run runs them all.
BROWSER_DAILY = [
    Path(__file__).parent / name
    for name in ("draw/test_page.py", "draw/test_figure.py", "studio/test_access.py", "docs/test_site.py")
]

TEXT = "".join(f"{i}: the cat sat on the mat, 我爱北京天安门 {i * i}\n" for i in range(300))
SMALL = "--set n_layer=1 --set width=32 --set n_head=2 --context 16 --batch 4 --steps 6 --eval-every 3".split()
SMALL += ["--set", "eval_batches=1"]


# torch.manual_seed also seeds cards that are not there: it writes down the whole stack for each, in case one comes to life.
# Below pytest's own frames that takes longer than many a test.
for kind in (torch.cuda, torch.xpu, torch.mtia):
    if not kind.is_available():
        kind.manual_seed_all = lambda seed: None


SPOKEN = os.environ.get("QKV_LANG")


def restore_language():
    """`--lang` holds for the process that was told it: a test that calls `main` with it would tell all that follow."""
    os.environ.pop("QKV_LANG", None)
    if SPOKEN is not None:
        os.environ["QKV_LANG"] = SPOKEN


@pytest.fixture(autouse=True)
def repeatable(request):
    restore_language()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)  # which also fills torch.empty with NaN
    yield
    torch.use_deterministic_algorithms(False)
    restore_language()
    if (
        not torch.is_grad_enabled() or _get_current_function_mode_stack()
    ):  # later tests would fail, without a hint at this one
        torch.set_grad_enabled(True)
        while _get_current_function_mode_stack():
            _pop_mode()
        warnings.warn(f"{request.node.nodeid} left gradients off or a function mode active", stacklevel=1)


STARTED: list[subprocess.Popen] = []  # while the test that is being run was called
REUSED = ("template_process.py", "warm.py")  # processes that the next test uses again; they end with this one
_start = subprocess.Popen.__init__


def _start_noted(self, *args, **more):
    _start(self, *args, **more)
    STARTED.append(self)


subprocess.Popen.__init__ = _start_noted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    STARTED.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """End what a test started and neither it nor its fixtures ended, also where it failed or lost patience."""
    try:
        return (yield)
    finally:
        leftovers = [process for process in STARTED if process.poll() is None and not _is_reused(process.args)]
        STARTED.clear()
        for process in leftovers:
            kill([process.pid, *descendants(process.pid)])
            process.wait()
        if leftovers and sys.exc_info()[0] is None:
            pytest.fail(f"left running: {[process.args for process in leftovers]}")


def _is_reused(command):
    return isinstance(command, list) and any(str(word).endswith(REUSED) for word in command)


@pytest.fixture
def warm(request, monkeypatch):
    """Processes that a test starts have torch already (tests/warm.py), but for tests with the mark `cold`."""
    if sys.platform == "linux" and not request.node.get_closest_marker("cold"):
        from tests.warm import Popen

        monkeypatch.setattr(subprocess, "Popen", Popen)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A book, and a run of each kind that learned a little from it."""
    from qkv.cli import main

    folder = tmp_path_factory.mktemp("shelf")
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    (folder / "pairs.tsv").write_text("".join(f"cat {i}\t猫 {i}\n" for i in range(40)), encoding="utf-8")
    for task, option in (("lm", "--text"), ("mlm", "--text"), ("translate", "--pairs")):
        source = folder / ("pairs.tsv" if task == "translate" else "book.txt")
        assert main(["train", task, option, str(source), "--out", str(folder / task), *SMALL]) == 0
    return folder


@pytest.fixture(scope="session")
def chromium():
    """Where Chromium is: a test that asks for it needs it."""
    return find_chromium()


def find_chromium():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


NEEDS = {"Chromium": find_chromium, "a C++ compiler": compiler}


def pytest_addoption(parser):
    parser.addoption("--furnished", action="store_true", help=f"only tests that need {' or '.join(NEEDS)}, all here")


def pytest_configure(config):
    config.addinivalue_line("markers", "cold: its processes are started as people start them, and load torch")
    config.addinivalue_line("markers", f"needs(what): not run where it is missing: {' or '.join(NEEDS)}")
    missing = [what for what, find in NEEDS.items() if not find()]
    if config.getoption("furnished") and missing:
        raise pytest.UsageError(f"--furnished needs {' and '.join(missing)}: not here")


def pytest_collection_finish():
    """What the libraries and thousands of tests are made of stays: looking for garbage in it again and again is work."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `-n`, the tests of a file stay in one process, so that what they share is made once."""
    if config.getoption("dist") != "load":  # asked for another way
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if hasattr(config, "workerinput"):  # begun last, a long file would keep the others waiting at the end
        items.sort(key=lambda item: LONG.index(item.path) if item.path in LONG else len(LONG))
    missing = {what for what, find in NEEDS.items() if not find()}
    needing = []
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs("Chromium"))
            if item.path not in BROWSER_DAILY:
                item.add_marker(pytest.mark.slow)
        needed = {mark.args[0] for mark in item.iter_markers("needs")}
        needing += [item] if needed else []
        for what in needed & missing:
            item.add_marker(pytest.mark.skip(reason=f"needs {what}"))
    if config.getoption("furnished"):
        config.hook.pytest_deselected(items=[item for item in items if item not in needing])
        items[:] = needing


def pytest_terminal_summary(terminalreporter):
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    for reason, n in Counter(skipped).items():
        if reason.startswith("Skipped: needs "):
            what = reason.removeprefix("Skipped: needs ")
            english = f"{n} tests need {what}" if n > 1 else f"1 test needs {what}"
            chinese = f"{n} 个测试需要 {what}：本机没有，未运行"
            line = chinese if language() == "zh" else f"{english}: not run, there is none here"
            terminalreporter.line(line)
