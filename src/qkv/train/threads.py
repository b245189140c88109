"""How many threads a run computes with: one where the model is so small that threads cost more than they save."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Parameters × tokens of a step, from which on a second thread pays. By the CPU time of the thread that leads (2 cores), a step
# of 16 million took 1.12 times as long with two threads, one of 114 million 0.82 times, to which the time comes that it takes
# to wake the other; and where another process has a core, two lose everywhere. `python -m benchmarks.busy threads` measures.
SMALL = 100_000_000
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def threads_for(parameters: int, tokens: int) -> int | None:
    """1 for a small model; None for a larger one, or where the environment says how many there shall be."""
    if (
        any(name in os.environ for name in THREAD_VARIABLES)
        or torch.cuda.is_available()
        or torch.get_num_threads() == 1
    ):
        return None
    return 1 if parameters * tokens < SMALL else None


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Compute with so many threads inside; None, or what the environment says, leaves it as it is."""
    before = torch.get_num_threads()
    if number is None or any(name in os.environ for name in THREAD_VARIABLES):
        yield
        return
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
