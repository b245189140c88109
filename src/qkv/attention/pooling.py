"""Pool neighbours of a table into cells, so that a map of any size fits a screen."""

from typing import Literal, get_args

import torch
from torch import Tensor

Pool = Literal["mean", "max", "sum"]
POOLS: tuple[Pool, ...] = get_args(Pool)


def pool_cells(table: Tensor, size: int, dim: int, pool: Pool) -> Tensor:
    """Pool `size` neighbours at a time along an axis; the last cell may cover fewer.

    >>> pool_cells(torch.tensor([1.0, 2.0, 3.0]), 2, 0, "sum").tolist()
    [3.0, 3.0]
    """
    if size == 1:
        return table
    count = table.shape[dim]
    whole = count // size * size
    joined = table.narrow(dim, 0, whole).unflatten(dim, (-1, size))
    pooled = joined.amax(dim + 1) if pool == "max" else joined.sum(dim + 1)
    if whole < count:
        rest = table.narrow(dim, whole, count - whole)
        last = rest.amax(dim, keepdim=True) if pool == "max" else rest.sum(dim, keepdim=True)
        pooled = torch.cat([pooled, last], dim)
    return pooled


def cell_sizes(count: int, size: int) -> Tensor:
    """Return how many numbers each cell covers.

    >>> cell_sizes(5, 2).tolist()
    [2.0, 2.0, 1.0]
    """
    covered = torch.full((-(-count // size),), float(size))
    if count % size:
        covered[-1] = count % size
    return covered
