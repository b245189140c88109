"""Exact maps of mixers, y = A·V, computed on demand from q, k and decays: a rectangle, a row, a column, or pooled.

Without softmax, weights are signed and rows don't sum to 1. Decayed linear attention has a formula for each weight,

    A[i, j] = scale·e^(cᵢ − cⱼ)·qᵢ·kⱼ,    c the running sum of log γ.

Under the delta rule every write between j and i changes what j wrote, so a weight is computed chunk by chunk:

    A[i, j] = read_i · through · … · through · leave_j

read_i is the read vector of the query at i on the state before its chunk, leave_j the trace of a value at j in the state
after its chunk, `through` (D × D) the transition of a chunk. No n×n matrix of a long text is stored.

One item and one head: N tokens, D key width, R rows, T chunks of C tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..attention.formula import span_indices
from ..attention.mask_algebra import Span
from ..attention.pooling import POOLS, Pool, cell_sizes, pool_cells
from ..i18n import Problem, unknown
from . import forms
from .calls import Mixing

TILE = 512, 1024  # rows and columns of a tile that fits the CPU cache
ROWS = 2048  # rows carried through the chunks together
Tile = tuple[slice, slice, Tensor]  # rows, columns, their weights
NEGLIGIBLE = -200.0  # log of a factor that underflows in float32 and doesn't change a float64 sum


@dataclass(frozen=True)
class MixerHead:
    """The map of one head of one item.

    >>> one = torch.ones(1, 1, 4, 1)
    >>> head = MixerHead(Mixing(one, one, one, torch.full((1, 1, 4), 0.5).log(), scale=1.0))
    >>> head.n, head.m, head.bare, head.allowed([1]).tolist()
    (4, 4, False, [[True, True, False, False]])
    >>> head.n, head.row(2).tolist(), head.column(1).tolist()
    (4, [0.25, 0.5, 1.0, 0.0], [0.0, 1.0, 0.5, 0.25])
    >>> head.weights([3], slice(0, 2)).tolist(), head.pooled(bins=2, pool="sum").tolist()
    ([[0.125, 0.25]], [[2.5, 0.0], [1.125, 2.5]])
    """

    call: Mixing  # with one item and one head

    @property
    def n(self) -> int:
        """Number of tokens: rows and columns of the map."""
        return self.call.v.shape[2]

    m = n  # as many keys as queries
    bare = False  # q, k and v are always known

    def allowed(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Return the mask of a rectangle, bool (R, ·)."""
        row, col = self._indices(rows, cols)
        return self.call.mask.tensor(self.n)[0, 0].expand(self.n, self.n)[row][:, col]

    @torch.no_grad()
    def weights(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Return the exact weights of a rectangle, (R, ·)."""
        return (self._linear if self.call.write is None else self._delta)(*self._indices(rows, cols))

    def _indices(self, *spans: Span) -> Iterator[Tensor]:
        return (torch.as_tensor(list(span_indices(span, self.n)), dtype=torch.long) for span in spans)

    def row(self, query: int) -> Tensor:
        """Return the weights of all values in the output of a token, (N,)."""
        return self.weights([query])[0]

    def column(self, key: int) -> Tensor:
        """Return the weights of a token's value in all outputs, (N,)."""
        return self.weights(None, [key])[:, 0]

    @torch.no_grad()
    def pooled(self, bins: int, pool: Pool = "mean") -> Tensor:
        """Return the whole map in at most bins × bins cells: mean, sum, or largest absolute weight (with its sign)."""
        if pool not in POOLS:
            raise unknown("pool", pool, POOLS)
        if bins < 1:
            raise Problem("bins is {bins}: give 1 or more", bins=bins)
        cell = max(-(-self.n // bins), 1)
        return pool_tiles(self.tiles(cell), self.n, cell, pool, self.call.q.dtype)

    @torch.no_grad()
    def tile(self, rows: slice, cols: slice, tall: int = 1, wide: int = 1, pool: Pool = "max") -> Tensor:
        """Return a rectangle in cells of `tall` × `wide` tokens: the largest absolute weight (with its sign) or the mean;
        (cells down, cells across). NaN where a cell is fully hidden.

        >>> one = torch.ones(1, 1, 4, 1)
        >>> head = MixerHead(Mixing(one, one, one, torch.full((1, 1, 4), 0.5).log(), scale=-1.0))
        >>> head.tile(slice(1, 4), slice(0, 4), 2, 2).tolist()
        [[-1.0, -1.0], [-0.25, -1.0]]
        >>> head.tile(slice(0, 2), slice(0, 4), 2, 2, "mean").tolist()
        [[-0.625, nan]]
        """
        if pool not in ("max", "mean"):
            raise unknown("pool", pool, ("max", "mean"))
        rows, cols = (slice(*span.indices(self.n)[:2]) for span in (rows, cols))
        step = max(ROWS // tall, 1) * tall
        parts = []
        for top in range(rows.start, rows.stop, step):
            here = slice(top, min(top + step, rows.stop))
            table = self.weights(here, cols)
            allowed = self.call.mask.tensor(self.n, rows=here, cols=cols)[0, 0].expand_as(table)
            high, low, any_allowed = (
                pool_cells(pool_cells(t, wide, 1, "max"), tall, 0, "max")
                for t in (table, -table, allowed.to(table.dtype))
            )
            pooled = torch.where(low > high, -low, high)
            if pool == "mean":
                counts = cell_sizes(len(table), tall)[:, None] * cell_sizes(table.shape[1], wide)
                pooled = pool_cells(pool_cells(table, wide, 1, "sum"), tall, 0, "sum") / counts
            parts.append(pooled.masked_fill(any_allowed == 0, torch.nan))
        return torch.cat(parts).float()

    @torch.no_grad()
    def tiles(self, cell: int) -> Iterator[Tile]:
        """Yield rectangles that cover all nonzero weights, as (rows, columns, weights). The rows of a rectangle are whole
        cells of `cell` rows, or part of a single cell.

        >>> one = torch.ones(1, 1, 3, 1)
        >>> head = MixerHead(Mixing(one, one, one, torch.zeros(1, 1, 3), scale=1.0))
        >>> [(rows, cols, table.tolist()) for rows, cols, table in head.tiles(1)]
        [(slice(0, 3, None), slice(0, 3, None), [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])]
        """
        if self.call.write is not None:
            for rows in self._row_bands(cell, ROWS):
                yield from ((rows, cols, table) for cols, table in self._backward_sweep(_index(rows)))
            return
        for rows in self._row_bands(cell, TILE[0]):
            top = rows.start
            for start in range(0, rows.stop, TILE[1]):
                cols = slice(start, min(start + TILE[1], rows.stop))
                if cols.stop <= top and self._log_decay[top] - self._log_decay[cols.stop - 1] < NEGLIGIBLE:
                    continue  # these values have decayed before the first of these rows
                table = self._past_weights(rows, cols) if cols.stop <= top else self._linear(_index(rows), _index(cols))
                yield rows, cols, table

    @cached_property
    def _log_decay(self) -> Tensor:
        return self.call.decay[0, 0].double().cumsum(0)

    @cached_property
    def _document(self) -> Tensor | None:
        return None if self.call.resets is None else self.call.resets[0].cumsum(0)

    def _linear(self, rows: Tensor, cols: Tensor) -> Tensor:
        call = self.call
        between = self._log_decay[rows, None] - self._log_decay[cols]
        hidden = rows[:, None] < cols
        if self._document is not None:
            hidden |= self._document[rows, None] != self._document[cols]
        factors = between.to(call.q.dtype).masked_fill_(hidden, float("-inf")).exp_()
        return (call.q[0, 0, rows] * call.scale @ call.k[0, 0, cols].T).mul_(factors)

    def _row_bands(self, cell: int, most: int) -> Iterator[slice]:
        """Yield slices of at most `most` rows that cover all rows; a slice has whole pooling cells or lies in a single cell."""
        step = cell if cell > most else most // cell * cell
        for start in range(0, self.n, step):
            stop = min(start + step, self.n)
            for top in range(start, stop, most):
                yield slice(top, min(top + most, stop))

    def _past_weights(self, rows: slice, cols: slice) -> Tensor:
        """Return weights of columns before all these rows by one matrix product: with c of the first row, e^(cᵢ − cⱼ) is
        e^(cᵢ − c)·e^(c − cⱼ), both at most 1."""
        call, edge = self.call, self._log_decay[rows.start]
        q, k = call.q[0, 0, rows] * call.scale, call.k[0, 0, cols]
        after = (self._log_decay[rows] - edge).exp_().to(q.dtype)
        since = (edge - self._log_decay[cols]).exp_().to(q.dtype)
        if self._document is not None:  # rows of a later document see none of these columns
            after.mul_(self._document[rows] == self._document[rows.start])
            since.mul_(self._document[cols] == self._document[rows.start])
        return (q * after[:, None]) @ (k * since[:, None]).T

    @cached_property
    def _chunks(self) -> _ChunkMatrices:
        return _chunk_matrices(self.call)

    def _delta(self, rows: Tensor, cols: Tensor) -> Tensor:
        """Return weights under the delta rule: few rows are swept backward, few columns forward."""
        weights = self.call.q.new_zeros(len(rows), len(cols))
        if len(rows) == 0 or len(cols) == 0:
            return weights
        if len(rows) <= len(cols):
            order, inverse = torch.unique(rows, return_inverse=True)
            for part, table in self._backward_sweep(order, int(cols.min())):
                here = ((cols >= part.start) & (cols < part.stop)).nonzero()[:, 0]
                weights[:, here] = table[inverse][:, cols[here] - part.start]
            return weights
        order, inverse = torch.unique(cols, return_inverse=True)
        whole = weights.new_zeros(len(rows), len(order))
        for part, table in self._forward_sweep(order, int(rows.max())):
            here = ((rows >= part.start) & (rows < part.stop)).nonzero()[:, 0]
            whole[here, : table.shape[1]] = table[rows[here] - part.start]
        return whole[:, inverse]

    def _backward_sweep(self, rows: Tensor, first: int = 0) -> Iterator[tuple[slice, Tensor]]:
        """Yield the weights of these sorted rows per chunk of columns, from the last visible one down to `first`."""
        matrices, size = self._chunks, self._chunks.size
        chunk = rows // size
        reads = matrices.reads.new_zeros(len(rows), matrices.reads.shape[-1])  # on the state after chunk m
        for m in range(int(chunk[-1]), first // size - 1, -1):
            begins, later = (int(torch.searchsorted(chunk, m, right=right)) for right in (False, True))
            own = rows[begins:later] - m * size
            cols = slice(m * size, min((m + 1) * size, self.n))
            zeros = reads.new_zeros(begins, size)
            table = torch.cat([zeros, matrices.inside[m, own], reads[later:] @ matrices.leaves[m]])
            yield cols, table[:, : cols.stop - cols.start]
            reads[later:] = reads[later:] @ matrices.through[m]
            reads[begins:later] = matrices.reads[m, own]
            if begins == 0 and float(reads.abs().amax()) < torch.finfo(torch.float32).tiny:
                return  # earlier values have decayed for all these rows

    def _forward_sweep(self, cols: Tensor, last: int) -> Iterator[tuple[slice, Tensor]]:
        """Yield the weights of these sorted columns per chunk of rows; a table has the columns up to its chunk."""
        matrices, size = self._chunks, self._chunks.size
        chunk = cols // size
        leaves = matrices.leaves.new_zeros(matrices.leaves.shape[1], len(cols))  # traces in the state, (D, ·)
        for m in range(int(chunk[0]), last // size + 1):
            begins, later = (int(torch.searchsorted(chunk, m, right=right)) for right in (False, True))
            own = cols[begins:later] - m * size
            rows = slice(m * size, min((m + 1) * size, self.n))
            table = torch.cat([matrices.reads[m] @ leaves[:, :begins], matrices.inside[m][:, own]], 1)
            yield rows, table[: rows.stop - rows.start]
            leaves[:, :begins] = matrices.through[m] @ leaves[:, :begins]
            leaves[:, begins:later] = matrices.leaves[m][:, own]


def pool_tiles(tiles: Iterable[Tile], n: int, cell: int, pool: Pool, dtype: torch.dtype = torch.float32) -> Tensor:
    """Pool the rectangles of `MixerHead.tiles` into cells of `cell` × `cell` weights: mean, sum or largest.

    >>> corner = slice(0, 2), slice(0, 2), torch.tensor([[1.0, 0.0], [-3.0, 0.5]])
    >>> pool_tiles([corner], 3, 2, "max").tolist(), pool_tiles([corner], 3, 2, "sum").tolist()
    ([[-3.0, 0.0], [0.0, 0.0]], [[-1.5, 0.0], [0.0, 0.0]])
    """
    count = -(-n // cell)
    high, low = (torch.zeros(count, count, dtype=dtype) for _ in range(2))
    for rows, cols, table in tiles:
        first = rows.start // cell
        index = torch.arange(cols.start, cols.stop) // cell
        for pooled, signed in ((high, table), (low, -table)) if pool == "max" else ((high, table),):
            tall = pool_cells(signed, cell, 0, pool)
            part = pooled[first : first + len(tall)]
            part.scatter_reduce_(1, index.expand_as(tall), tall, "amax" if pool == "max" else "sum")
    if pool == "max":
        return torch.where(low > high, -low, high)
    if pool == "mean":
        size = cell_sizes(n, cell).to(high.dtype)
        high /= size[:, None] * size
    return high


class _ChunkMatrices(NamedTuple):
    """Matrices of the chunks of a delta rule map."""

    inside: Tensor  # (T, C, C): weights between tokens of one chunk
    reads: Tensor  # (T, C, D): read vectors on the state before the chunk
    leaves: Tensor  # (T, D, C): trace of a value at j in the state after the chunk
    through: Tensor  # (T, D, D): transition of the state

    @property
    def size(self) -> int:
        return self.inside.shape[1]


@torch.no_grad()
def _chunk_matrices(call: Mixing, size: int = forms.CHUNK) -> _ChunkMatrices:
    def cut(table: Tensor) -> Tensor:
        """(N, …) → (T, C, …)."""
        more = (0, 0) * (table.ndim - 1) + (0, -len(table) % size)
        return torch.nn.functional.pad(table, more).unflatten(0, (-1, size))

    assert call.write is not None
    q, k, decay, write = (cut(t[0, 0]) for t in (call.q, call.k, call.decay, call.write))
    resets = None if call.resets is None else cut(call.resets[0])
    factors = forms.decay_factors(decay, resets)
    solved = forms.inverse((factors.pairs * (k @ k.mT)).mul_(write[:, None]).tril_(-1)).mul_(write[..., None])
    faded_keys = k * factors.entry  # (T, C, D)
    inside = (q * call.scale @ k.mT).mul_(factors.pairs) @ solved
    reads = q * call.scale * factors.entry - inside @ faded_keys
    leaves = (k * factors.exit).mT @ solved  # (T, D, C)
    through = (leaves @ faded_keys).neg_()
    through.diagonal(dim1=-2, dim2=-1).add_(factors.through[..., 0])
    return _ChunkMatrices(inside, reads, leaves, through)


def _index(span: slice) -> Tensor:
    return torch.arange(span.start, span.stop)


def head_of(call: Mixing, item: int, head: int) -> MixerHead:
    """Return the map of one head of a recorded call.

    >>> one = torch.ones(1, 2, 2, 1)
    >>> head_of(Mixing(one, one, one, torch.zeros(1, 2, 2), scale=1.0), item=0, head=1).weights().tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    mixing = call.only([head], [item]).mapped(lambda t: t.detach().cpu())
    return MixerHead(mixing.mapped(Tensor.float) if mixing.v.dtype.itemsize < 4 else mixing)
