"""Elementary mask rules. Kernels check their types to find what can be skipped.

B batch, H heads, N queries, M keys. Works on NumPy arrays without importing torch, and on torch tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..i18n import Problem
from .mask_algebra import A, Cells, Mask, broadcast_index, to_numpy

if TYPE_CHECKING:
    from .mask_algebra import Table


class Band(Mask):
    """Keys from `left` before a query to `right` after it; None: no limit."""

    def __init__(self, left: int | None, right: int | None) -> None:
        self.left, self.right = left, right

    def allows(self, cells: Cells[A]) -> A:
        return self.between(cells.row, cells.col)

    def between(self, row: A, col: A) -> A:
        """Return the rule for positions, used by kernels that split the band into pieces."""
        if self.left is None:
            assert self.right is not None  # Band(None, None) is never built: window() returns full()
            return col <= row + self.right
        allowed = col >= row - self.left
        return allowed if self.right is None else allowed & (col <= row + self.right)

    def __repr__(self) -> str:
        return "causal()" if (self.left, self.right) == (None, 0) else f"window({self.left}, {self.right})"


def narrowest(rules: Iterable[Mask]) -> tuple[int | None, int | None]:
    """Return the (left, right) limits of all bands among the rules together.

    >>> narrowest([Band(5, None), Band(2, 0)])
    (2, 0)
    """
    bands = [rule for rule in rules if isinstance(rule, Band)]
    before = min((band.left for band in bands if band.left is not None), default=None)
    return before, min((band.right for band in bands if band.right is not None), default=None)


class Padding(Mask):
    """The real keys of each item: the first `lengths`, or those marked True."""

    def __init__(self, lengths: Table | None = None, real: Table | None = None) -> None:
        self.lengths, self.real = lengths, real
        self.batched = len(self.table) > 1

    @property
    def table(self) -> Table:
        """Return the lengths, or the True/False marks if there are no lengths."""
        table = self.real if self.lengths is None else self.lengths
        assert table is not None
        return table

    def allows(self, cells: Cells[A]) -> A:
        table, item = cells.convert(self.table), broadcast_index(cells.b, len(self.table))
        if self.lengths is not None:
            return (cells.i >= 0) & (cells.col < table[item])
        size = table.shape[1]  # a static cache has more columns than the mask
        return (cells.i >= 0) & (cells.col < size) & table[item, cells.col.clip(0, size - 1)]

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        _check_entries("padding", len(self.table), batch)
        if self.real is not None and self.real.shape[1] != m:
            raise Problem(
                "mask is {shape} but keys are {keys}: give one True/False per key; True = may attend",
                shape=tuple(self.real.shape),
                keys=(batch, m),
            )

    def size(self) -> tuple[int, int, int, int]:
        if self.real is not None:
            return self.real.shape[0], 1, self.real.shape[1], self.real.shape[1]
        longest = max(int(to_numpy(self.table).max(initial=1)), 1)
        return len(self.table), 1, longest, longest

    def ranges(self) -> list[tuple[int, int]] | None:
        """Return the real keys of each item as (start, stop), or None if they are not contiguous."""
        if self.lengths is not None:
            return [(0, max(int(length), 0)) for length in to_numpy(self.lengths)]
        runs: list[tuple[int, int]] = []
        for real in to_numpy(self.table):
            indices = np.flatnonzero(real)
            if len(indices) and indices[-1] - indices[0] + 1 != len(indices):
                return None
            runs.append((int(indices[0]), int(indices[-1]) + 1) if len(indices) else (0, 0))
        return runs

    def __repr__(self) -> str:
        return f"padding({to_numpy(self.table).tolist()})"


class Prefix(Mask):
    def __init__(self, n: Table) -> None:
        self.n = n
        self.batched = len(n) > 1

    def allows(self, cells: Cells[A]) -> A:
        return (cells.col < cells.convert(self.n)[broadcast_index(cells.b, len(self.n))]) | (cells.col <= cells.row)

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        _check_entries("prefix", len(self.n), batch)

    def size(self) -> tuple[int, int, int, int]:
        return len(self.n), 1, 8, 8

    def __repr__(self) -> str:
        lengths = to_numpy(self.n).tolist()
        return f"prefix({lengths[0] if len(lengths) == 1 else lengths})"


class Documents(Mask):
    def __init__(self, ids: Table) -> None:
        self.ids = ids
        self.batched = len(ids) > 1

    def allows(self, cells: Cells[A]) -> A:
        ids, b, last = cells.convert(self.ids), broadcast_index(cells.b, len(self.ids)), self.ids.shape[1] - 1
        inside = (cells.row >= 0) & (cells.row <= last) & (cells.col <= last)
        return inside & (ids[b, cells.row.clip(0, last)] == ids[b, cells.col.clip(0, last)])

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        if (len(self.ids) != 1 and len(self.ids) != batch) or self.ids.shape[1] < m:
            raise Problem(
                "document ids are {shape} but keys are {keys}: give one document number per key",
                shape=tuple(self.ids.shape),
                keys=(batch, m),
            )

    def size(self) -> tuple[int, int, int, int]:
        return self.ids.shape[0], 1, self.ids.shape[1], self.ids.shape[1]

    def __repr__(self) -> str:
        return f"documents({to_numpy(self.ids).tolist()})"


class QueryPadding(Mask):
    """Padding of the queries: rows of padding attend to nothing. Created by `cross`."""

    def __init__(self, real: Padding) -> None:
        self.real = real
        self.batched = real.batched

    def allows(self, cells: Cells[A]) -> A:
        transposed = Cells(cells.b, cells.h, cells.j, cells.i, row=cells.j, col=cells.i)
        return self.real.allows(transposed)

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        self.real.check(batch, heads, m, n)

    def size(self) -> tuple[int, int, int, int]:
        return self.real.size()

    def __repr__(self) -> str:
        return f"queries({self.real!r})"


class Dense(Mask):
    _is_table = True

    def __init__(self, allowed: Table) -> None:
        self.allowed = allowed  # (B or 1, H or 1, N, M)
        self.batched, self.headed = allowed.shape[0] > 1, allowed.shape[1] > 1

    def allows(self, cells: Cells[A]) -> A:
        allowed = cells.convert(self.allowed)
        indices = zip((cells.b, cells.h, cells.i, cells.j), allowed.shape, strict=True)
        return allowed[tuple(broadcast_index(index, size) for index, size in indices)]

    def check(self, batch: int, heads: int, n: int, m: int) -> None:
        shape = tuple(self.allowed.shape)
        for has, size in zip(shape, (batch, heads, n, m), strict=True):
            if has != 1 and has != size:
                raise Problem(
                    "mask is {shape} but scores are {scores} (batch, heads, queries, keys): give (N, M), (B, N, M) or (B, "
                    "H, N, M); for one True/False per key use masks.padding(mask); True = may attend",
                    shape=shape[2:] if shape[:2] == (1, 1) else shape,
                    scores=(batch, heads, n, m),
                )

    def size(self) -> tuple[int, int, int, int]:
        return tuple(self.allowed.shape)

    def __repr__(self) -> str:
        return f"dense({'×'.join(map(str, self.allowed.shape))}, {float(to_numpy(self.allowed).mean()):.0%} allowed)"


def _check_entries(name: str, entries: int, batch: int) -> None:
    if entries != 1 and entries != batch:  # `in` would not guard a dynamic length while compiling
        raise Problem(
            "{what} was given for {given} items but the batch has {batch}: give one entry per item",
            what=name,
            given=entries,
            batch=batch,
        )
