"""Threads that wait for each other sleep: on a busy machine a thread that spins takes the core from the one it waits for.

OpenMP itself is asked what it will do (OMP_DISPLAY_ENV), since it reads the environment once, when PyTorch loads it.
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


def spins(*command, **environment):
    """How often a thread of OpenMP looks before it sleeps, in a process where nothing else says how to wait."""
    clean = {name: value for name, value in os.environ.items() if name not in cli.WAITING}
    clean |= {"OMP_DISPLAY_ENV": "VERBOSE", **environment}
    done = subprocess.run([sys.executable, *command], env=clean, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)[1])


def test_the_command_line_has_threads_sleep():
    assert spins("-m", "qkv", "generate", "the", "--model", str(LM), "--most", "1") == 0


@pytest.mark.parametrize("environment", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "1234"}], ids=str)
def test_what_the_user_set_wins(environment):
    found = spins("-c", "from qkv.cli import main; main(['--version']); import torch", **environment)
    assert found == 1234 or (found > 10**6 and "OMP_WAIT_POLICY" in environment)


def test_where_pytorch_is_loaded_already_nothing_is_pretended():
    asks = "import torch, os; from qkv.cli import main; main(['--version']); assert 'OMP_WAIT_POLICY' not in os.environ"
    assert spins("-c", asks) > 0


# One thread for small models.


@pytest.fixture
def two(monkeypatch):
    """A machine where PyTorch would use two threads, and nobody said otherwise."""
    for name in machine.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def begun(folder, **changes):
    (folder / "book.txt").write_text("the cat sat on the mat. " * 200)
    small = dict(n_layer=1, width=16, n_head=2, context=8, batch=2, steps=2, eval_batches=1)
    return runs.start("lm", out=folder / "run", source=str(folder / "book.txt"), changes=small | changes)


def test_a_small_model_trains_on_one_thread_says_so_and_remembers(two, tmp_path):
    run, seen = begun(tmp_path), []
    assert dict(run.why)["why.thread"] == {"threads": 2}
    run.train(lambda line: seen.append(torch.get_num_threads()))
    assert seen == [1, 1] and torch.get_num_threads() == 2
    again = runs.resume(tmp_path / "run")  # so that it goes on bit for bit, whatever a later version thinks is small
    assert again.threads == 1


def test_a_larger_one_uses_them_all(two, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "SMALL", 1)
    run, seen = begun(tmp_path), []
    assert dict(run.why)["why.cpu"] == {"threads": 2}
    run.train(lambda line: seen.append(torch.get_num_threads()))
    assert seen == [2, 2] and runs.resume(tmp_path / "run").threads is None


def test_it_is_a_matter_of_parameters_and_tokens(two):
    assert threads_for(SMALL // 100, 99) == 1 and threads_for(SMALL // 100, 100) is None


@pytest.mark.parametrize("name", machine.THREAD_VARIABLES)
def test_a_number_that_the_user_set_wins(name, two, monkeypatch):
    monkeypatch.setenv(name, "2")
    assert threads_for(1, 1) is None
    with threads(1):
        assert torch.get_num_threads() == 2
