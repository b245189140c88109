"""Waiting threads sleep: on a busy machine a spinning thread occupies the core that the other thread needs.

OMP_DISPLAY_ENV prints the settings of OpenMP, which reads the environment once, when PyTorch loads it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from qkv import cli
from qkv.train import machine
from qkv.train import run as runs
from qkv.train.machine import SMALL, threads, threads_for

LM = Path(__file__).parents[1] / "fixtures" / "2026-11" / "lm"


def spin_count(*command, **environment):
    """Return how often an OpenMP thread spins before it sleeps, in a process without other wait settings."""
    clean = {name: value for name, value in os.environ.items() if name not in cli.WAITING}
    clean |= {"OMP_DISPLAY_ENV": "VERBOSE", **environment}
    process = subprocess.run([sys.executable, *command], env=clean, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return int(re.search(r"GOMP_SPINCOUNT = '(\d+)'", process.stderr)[1])


def test_threads_of_the_command_line_sleep():
    assert spin_count("-m", "qkv", "generate", "the", "--model", str(LM), "--most", "1") == 0


@pytest.mark.parametrize("environment", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "1234"}], ids=str)
def test_what_the_user_set_wins(environment):
    count = spin_count("-c", "from qkv.cli import main; main(['--version']); import torch", **environment)
    assert count == 1234 or (count > 10**6 and "OMP_WAIT_POLICY" in environment)


def test_wait_policy_is_not_set_after_pytorch_loaded():
    script = (
        "import torch, os; from qkv.cli import main; main(['--version']); assert 'OMP_WAIT_POLICY' not in os.environ"
    )
    assert spin_count("-c", script) > 0


# One thread for small models.


@pytest.fixture
def two_threads(monkeypatch):
    """Two PyTorch threads, and no environment variable that sets another number."""
    for name in machine.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def start_run(folder, **changes):
    (folder / "book.txt").write_text("the cat sat on the mat. " * 200)
    small = dict(n_layer=1, width=16, n_head=2, context=8, batch=2, steps=2, eval_batches=1)
    return runs.start("lm", out=folder / "run", source=str(folder / "book.txt"), changes=small | changes)


def test_small_models_train_on_a_single_thread(two_threads, tmp_path):
    run, thread_counts = start_run(tmp_path), []
    assert dict(run.why)["why.thread"] == {"threads": 2}
    run.train(lambda line: thread_counts.append(torch.get_num_threads()))
    assert thread_counts == [1, 1] and torch.get_num_threads() == 2
    again = runs.resume(tmp_path / "run")  # same number of threads: bit-identical, even if SMALL changes
    assert again.threads == 1


def test_larger_models_use_all_threads(two_threads, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "SMALL", 1)
    run, thread_counts = start_run(tmp_path), []
    assert dict(run.why)["why.cpu"] == {"threads": 2}
    run.train(lambda line: thread_counts.append(torch.get_num_threads()))
    assert thread_counts == [2, 2] and runs.resume(tmp_path / "run").threads is None


def test_threads_depend_on_parameters_and_tokens(two_threads):
    assert threads_for(SMALL // 100, 99) == 1 and threads_for(SMALL // 100, 100) is None


@pytest.mark.parametrize("name", machine.THREAD_VARIABLES)
def test_a_number_that_the_user_set_wins(name, two_threads, monkeypatch):
    monkeypatch.setenv(name, "2")
    assert threads_for(1, 1) is None
    with threads(1):
        assert torch.get_num_threads() == 2
