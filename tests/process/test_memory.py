"""Memory that is not there is no bug of ours: a sentence that names the cause and the size, before it is taken."""

import platform
import subprocess
import sys

import numpy as np
import pytest
import torch

from qkv import Config, Transformer
from qkv.cli import main
from qkv.i18n import Problem
from qkv.process import memory


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book.txt").write_text("the cat sat on the mat\n" * 60)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "width=1000000", "--set", "n_head=2"], ["weights takes at least", "TB", "make width"]),
        (["--set", "width=1000000000000000", "--set", "n_head=1"], ["memory"]),
        (["--batch", "1000000000"], ["1,000,000,000 rows of 64 tokens", "PB", "--batch"]),
        (["--set", "n_layer=2147483648"], ["n_layer is 2147483648", "10000 layers"]),
    ],
)
def test_training_what_memory_cannot_hold_is_refused(options, words, book, capsys):
    assert main(["train", "lm", "--text", str(book / "book.txt"), "--out", str(book / "run"), *options]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert not (book / "run" / "config.json").exists(), "there is no run of it"
    assert (
        main(["train", "lm", "--text", str(book / "book.txt"), "--out", str(book / "run"), *options, "--lang", "zh"])
        == 2
    )


def test_generating_without_end_is_refused(book, capsys):
    small = (
        "--set n_layer=1 --set width=16 --set n_head=2 --context 16 --batch 2 --steps 1 --set eval_batches=1".split()
    )
    assert main(["train", "lm", "--text", str(book / "book.txt"), "--out", str(book / "run"), *small]) == 0
    capsys.readouterr()
    assert main(["generate", "the cat", "--model", str(book / "run"), "--most", "999999999999"]) == 2
    error = capsys.readouterr().err
    assert "keys and values of 1,000,000,000,006 tokens take 128 TB" in error and "--most" in error


@pytest.mark.parametrize(
    ("options", "each"),
    [
        (dict(), 2 * 4 * 8),
        (dict(n_kv_head=2), 2 * 2 * 8),
        (dict(mixer="latent", rank=5, rope_width=4), 5 + 4),
    ],
)
def test_the_size_of_a_cache_is_what_it_takes(options, each, monkeypatch):
    sizes = []
    monkeypatch.setattr("qkv.model.transformer.require", lambda size, *_, **__: sizes.append(size))
    model = Transformer(Config(vocab=11, width=32, n_layer=3, n_head=4, **options))
    model.new_cache(2, 7)
    assert sizes == [3 * 2 * 7 * each * 4]


@pytest.mark.parametrize(
    ("allocate", "size"),
    [
        (lambda: torch.empty(1 << 55), "144 PB"),
        (lambda: np.empty(1 << 55), "256. PiB"),
        (lambda: torch.empty(1 << 62, 1 << 62, device="meta"), "more than available"),
        (lambda: [0] * (1 << 60), "more than available"),
    ],
)
def test_out_of_memory_errors_of_libraries_are_translated(allocate, size):
    with pytest.raises((RuntimeError, MemoryError)) as raised:
        allocate()
    problem = memory.explain(raised.value)
    assert problem is not None and size in str(problem) and problem.say("zh"), str(raised.value)


def test_another_error_stays_what_it_is():
    assert memory.explain(RuntimeError("shapes differ")) is None and memory.explain(KeyError("out of memory")) is None


def test_a_limit_of_the_process_counts():
    code = (
        "import resource; from qkv.process import memory; from pathlib import Path;"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize();"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), used + (100 << 20))); print(memory.free())"
    )
    error = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(error.stdout) <= 100 << 20


def test_require_names_both_sizes(monkeypatch):
    monkeypatch.setattr(memory, "free", lambda device=None: 3_000_000)
    with pytest.raises(Problem, match=r"4 TB .* 3 MB"):
        memory.require(4_000_000_000_000, "it takes {size} and {free} is free")
    memory.require(3_000_000, "it takes {size} and {free} is free")


FAULTS = """
import resource, sys
import numpy as np
from qkv.process import memory

if sys.argv[1] == "reuse":
    memory.keep_freed_memory()
for turn in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(16_000_000)
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(pages)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep memory")
def test_freed_memory_is_reused():
    pages = [int(subprocess.check_output([sys.executable, "-c", FAULTS, mode])) for mode in ("reuse", "as it comes")]
    assert pages[0] * 20 < pages[1]
