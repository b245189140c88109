"""Many tiles at once, a thread each.

PyTorch shares every operation out among its threads, which pays where an operation is large. A tile that stays near the
processor is a row of small ones: there each thread takes a tile of its own, and none waits for the others before the end.
Nine heads of 4,000 tokens are looked at in 0.16 s instead of 0.28 (2 cores).
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
_own = threading.local()


@torch.inference_mode()
def each(work: Callable[[Task], None], tasks: Iterable[Task]) -> None:
    """Do all the work, in any order, in inference mode; what one task writes, no other reads, and nothing else is kept.

    >>> squares = torch.zeros(5)
    >>> each(lambda i: squares[i].fill_(i * i), range(5))
    >>> squares.tolist()
    [0.0, 1.0, 4.0, 9.0, 16.0]
    """
    several, count = list(tasks), torch.get_num_threads()
    if count == 1 or len(several) == 1:
        for task in several:
            work(task)
    else:
        list(_threads(count).map(torch.inference_mode()(work), several))


def room(size: int, which: int = 0) -> Tensor:
    """So many numbers to write into, this thread's own, the same ones again and again: fresh memory costs more than a product.
    For tasks of `each` alone, since PyTorch lets nobody else write into what was made in inference mode.

    >>> rooms = []
    >>> each(lambda size: rooms.append(room(size)), [3, 2])
    >>> sorted(len(one) for one in rooms)
    [2, 3]
    """
    rooms: dict[int, Tensor] = _own.__dict__.setdefault("rooms", {})
    if which not in rooms or len(rooms[which]) < size:
        rooms[which] = torch.empty(size)
    return rooms[which][:size]


def _alone() -> None:
    torch.get_num_threads()
    torch.set_num_threads(1)


def _threads(count: int) -> ThreadPoolExecutor:
    """Threads whose own operations are not shared out, for the thread that asks: who looks at one tile doesn't wait for who
    looks at all.

    PyTorch keeps that number for each thread, but one that computes for the first time takes what was said last anywhere: so
    all of these are told at once, after a first look, and then it is said again what held before.
    """
    pools: dict[int, ThreadPoolExecutor] = _own.__dict__.setdefault("pools", {})
    if count not in pools:
        pools[count] = ThreadPoolExecutor(count, "qkv-tiles", initializer=_alone)
        there = threading.Barrier(count + 1)
        for _ in range(count):
            pools[count].submit(there.wait)
        there.wait()
        torch.set_num_threads(count)
    return pools[count]


if hasattr(os, "register_at_fork"):  # a fork has none of its parent's threads
    os.register_at_fork(after_in_child=lambda: _own.__dict__.pop("pools", None))
