"""Damaged files of every kind load or raise a Problem: a few hundred here, any number with `make fuzz N=10000`."""

import sys

import pytest

from .__main__ import Worker, fuzz
from .readers import READERS

CASES = 20  # cases of every reader
SLOW_READERS = ["families"]  # making their valid files takes seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the memory limit needs Linux")


@pytest.mark.parametrize(
    "readers",
    [[name for name in READERS if name not in SLOW_READERS], pytest.param(SLOW_READERS, marks=pytest.mark.slow)],
    ids=len,
)
def test_damaged_files_get_a_sentence_or_load(readers, tmp_path):
    result = fuzz([(reader, seed) for seed in range(CASES) for reader in readers], tmp_path)
    wrong = [f"python -m tests.fuzz --reader {r} --seed {seed}\n{report['why']}" for r, seed, report in result.wrong]
    assert not wrong, "\n".join(wrong)
    for reader in readers:  # some damage is detected and some is harmless
        counts = result.counts[reader]
        assert counts.total() == CASES and counts["sentence"] > 0 and counts["loaded"] > 0, (reader, counts)


HARMFUL = """
import sys, tests.fuzz.worker as worker
from qkv.i18n import Problem
from tests.fuzz.readers import Reader
def harm(folder, file):
    if file.read_bytes():  # the good one is empty
        exec(sys.argv[3])
worker.READERS = {"harm": Reader(None, harm, {"file": lambda good, dice: b"x"})}
worker.main()
"""


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("raise KeyError('x')", "KeyError"),
        ("b'x' * (1 << 33)", "MemoryError"),
        ("while True: pass", "no answer within"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("import os; os._exit(7)", "ended with 7"),
        ("raise type('PanicException', (BaseException,), {})('in Rust')", "PanicException"),
        ("import os; os.write(2, b\"thread '<unnamed>' panicked at src/lib.rs\")", "a panic was printed"),
        ("p = Problem('problem.word', word=1, words=2); p.english = 'x' * 9999; raise p", "9,999 characters"),
    ],
)
def test_failures_are_reported(code, named, tmp_path, monkeypatch):
    if code.startswith("while"):  # only this case runs into the limit
        monkeypatch.setattr("tests.fuzz.__main__.SECONDS", 1.0)
    (tmp_path / "good" / "harm").mkdir(parents=True)
    (tmp_path / "good" / "harm" / "file").touch()
    worker = Worker(tmp_path / "good", tmp_path / "scratch", ["-c", HARMFUL], [code])
    report = worker.attempt("harm", 0)
    worker.end()
    assert report["outcome"] == "wrong" and named in report["why"], report
