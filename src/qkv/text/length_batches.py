"""Batches of rows of similar length: little padding, still well mixed, a function of (seed, step)."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from .seeded_rng import dice

POOL = 32  # batches sorted by length together: enough for little padding, few enough to stay mixed


class Pools:
    """The rows of each batch.

    In each epoch the rows are shuffled, sorted by length within pools and cut into batches, which are shuffled. Every
    row comes once; some come twice to fill the last batch.

    >>> pools = Pools([3, 1, 2])
    >>> sorted(pools.batch(seed=0, step=0, batch=3).tolist()), [rows.tolist() for rows in pools.in_order(2)]
    ([0, 1, 2], [[1, 2], [0]])
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = np.array(lengths)
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def batch(self, seed: int, step: int, batch: int) -> np.ndarray:
        """Return the rows of batch number `step`, counted across epochs."""
        epoch, number = divmod(step, -(-len(self.lengths) // batch))
        return self._epoch(seed, epoch, batch)[number]

    def in_order(self, batch: int) -> Iterator[np.ndarray]:
        """Yield batches with every row once, in order of length, for evaluation."""
        order = np.argsort(self.lengths, kind="stable")
        return (order[first : first + batch] for first in range(0, len(order), batch))

    def _shuffled(self, seed: int, epoch: int, batch: int) -> np.ndarray:
        rng = dice(seed, epoch, stream=2)
        count = -(-len(self.lengths) // batch)
        order = np.resize(rng.permutation(len(self.lengths)), count * batch)  # the last is filled from the first
        pools = [order[first : first + POOL * batch] for first in range(0, len(order), POOL * batch)]
        order = np.concatenate([pool[np.argsort(self.lengths[pool], kind="stable")] for pool in pools])
        return order.reshape(count, batch)[rng.permutation(count)]
