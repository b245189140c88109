"""Run small tensor tasks in parallel, one thread per task.

PyTorch splits every operation over its threads, which pays off for large operations. A tile that fits into the cache is
a sequence of small ones: here each thread takes whole tiles, and nobody waits before the end. Nine heads of 4,000 tokens
take 0.16 s instead of 0.28 s (2 cores).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

Task = TypeVar("Task")
_local = threading.local()


@torch.inference_mode()
def run_tasks(work: Callable[[Task], None], tasks: Iterable[Task]) -> None:
    """Call `work` on every task, in any order, in inference mode. No task may read what another one writes.

    >>> squares = torch.zeros(5)
    >>> run_tasks(lambda i: squares[i].fill_(i * i), range(5))
    >>> squares.tolist()
    [0.0, 1.0, 4.0, 9.0, 16.0]
    """
    queue, count = list(tasks), torch.get_num_threads()
    if count == 1 or len(queue) == 1:
        for task in queue:
            work(task)
    else:
        list(_threads(count).map(torch.inference_mode()(work), queue))


def scratch(size: int, index: int = 0) -> Tensor:
    """Return this thread's scratch buffer number `index`; allocating a new one would take longer than a matrix product.

    Only for tasks of `run_tasks`: PyTorch forbids writing into an inference tensor outside of inference mode.

    >>> buffers = []
    >>> run_tasks(lambda size: buffers.append(scratch(size)), [3, 2])
    >>> sorted(len(buffer) for buffer in buffers)
    [2, 3]
    """
    buffers: dict[int, Tensor] = _local.__dict__.setdefault("buffers", {})
    if index not in buffers or len(buffers[index]) < size:
        buffers[index] = torch.empty(size)
    return buffers[index][:size]


def _use_one_thread() -> None:
    torch.get_num_threads()
    torch.set_num_threads(1)


def _threads(count: int) -> ThreadPoolExecutor:
    """Return the calling thread's pool of workers, whose own operations are single-threaded.

    The number of PyTorch threads is kept per thread, but a thread that computes for the first time takes the number that
    any thread set last. So all workers set theirs at once, after reading it, and then the caller restores its own.
    """
    pools: dict[int, ThreadPoolExecutor] = _local.__dict__.setdefault("pools", {})
    if count not in pools:
        pools[count] = ThreadPoolExecutor(count, "qkv-tiles", initializer=_use_one_thread)
        barrier = threading.Barrier(count + 1)
        for _ in range(count):
            pools[count].submit(barrier.wait)
        barrier.wait()
        torch.set_num_threads(count)
    return pools[count]


if hasattr(os, "register_at_fork"):  # a fork has none of its parent's threads
    os.register_at_fork(after_in_child=lambda: _local.__dict__.pop("pools", None))
