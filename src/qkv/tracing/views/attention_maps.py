"""Exact weights from q and k on demand: a rectangle, a row, a column, or the pooled map, at any length.

Nothing here holds an n×n matrix of a long text. Rows are computed in blocks; the log of the rows' sums (`lse`) is cached.

H heads, N queries, M keys, D head width, R rows of a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ...attention import formula, pieces
from ...attention.formula import Call, span_indices, take, visible_keys
from ...attention.mask_algebra import Full, Span
from ...attention.pooling import POOLS, Pool, cell_sizes, pool_cells
from ...attention.rules import Band
from ...i18n import Problem
from . import parallel_tiles

BLOCK = 1 << 24  # numbers in a block of scores: 64 MB of float32
TILE = 512, 1024  # rows and columns of a tile that stays in the processor's cache: 2 MB
LARGE = 1 << 22  # scores from which on a map is pooled by tiles
HIDDEN = -1e30  # a score whose weight is 0; unlike −inf it may be multiplied by 0
TINY = 1e-30  # below it, float32 has few digits left


@dataclass(frozen=True)
class Head:
    """One head of one item: q (N, D), k and v (M, D) and its weights."""

    call: Call  # of this item and head alone
    _lse_of: dict[tuple[int, ...], Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def n(self) -> int:
        """The number of queries."""
        return self.call.q.shape[2]

    @property
    def m(self) -> int:
        """The number of keys."""
        return self.call.k.shape[2]

    @property
    def bare(self) -> bool:
        """True without q, k and v: they have width 0, and the bias is the logarithm of the weights."""
        return self.call.q.shape[3] == 0

    def allowed(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Return the mask of a rectangle: bool (R, ·)."""
        r, c = len(span_indices(rows, self.n)), len(span_indices(cols, self.m))
        return self.call.allowed(rows, cols)[0, 0].expand(r, c)

    @torch.no_grad()
    def scores(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Return the scores (R, ·), scaled, capped, biased and masked (−inf), in float32 or better."""
        return formula.scores(self.call, rows, cols)[0, 0]

    @torch.no_grad()
    def weights(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Return the exact weights (R, ·); each row's softmax is over all keys, whatever `cols`."""
        return take(formula.weights(self.call, rows)[0, 0], cols, 1)

    @cached_property
    @torch.no_grad()
    def lse(self) -> Tensor:
        """log Σ e^score of every row (N,); −inf for a row without visible keys."""
        if self.plain:
            return row_lse(self.call)[0]
        reached = ((rows, visible_keys(self.call.mask, self.n, self.m, rows)) for rows in self.blocks())
        return torch.cat([formula.lse(self.call, rows, cols)[0, 0] for rows, cols in reached])

    @property
    def plain(self) -> bool:
        """True if the flash kernel can compute it, see `is_flash_call`."""
        return is_flash_call(self.call)

    @torch.no_grad()
    def column(self, key: int) -> Tensor:
        """Return every query's weight on a key (N,)."""
        table = self.scores(None, [key])[:, 0]
        return (table - self.lse.to(table.dtype)).exp().nan_to_num_(0.0)  # −inf − −inf: a row without visible keys

    def blocks(self, least: int = 1) -> Iterator[slice]:
        """Yield blocks of at most BLOCK scores, each a multiple of `least` rows."""
        size = max(BLOCK // max(self.m, 1), 1)
        size = max(size // least, 1) * least
        for start in range(0, self.n, size):
            yield slice(start, min(start + size, self.n))

    @torch.no_grad()
    def pooled(self, bins: int, pool: Pool = "mean") -> Tensor:
        """Return the map in at most bins × bins cells, each the mean, maximum or sum of its weights."""
        if pool not in POOLS:
            raise Problem("pool {pool} is not one of {pools}", pool=pool, pools=", ".join(POOLS))
        if bins < 1:
            raise Problem("bins is {bins}: give 1 or more", bins=bins)
        tall, wide = -(-self.n // bins), -(-self.m // bins)
        pooled = torch.zeros(-(-self.n // tall), -(-self.m // wide))
        if self.plain and self.n * self.m >= LARGE:
            self._pool_tiles(pooled, tall, wide, pool)
        else:
            self._pool_blocks(pooled, tall, wide, pool)
        if pool == "mean":
            pooled /= cell_sizes(self.n, tall)[:, None] * cell_sizes(self.m, wide)[None, :]
        return pooled

    @torch.no_grad()
    def tile(
        self, rows: slice, cols: slice, tall: int = 1, wide: int = 1, pool: Pool = "max", without: Sequence[int] = ()
    ) -> Tensor:
        """Return a rectangle of the map in cells of `tall` queries by `wide` keys: (cells down, cells across).

        A cell is the maximum or mean of its exact weights (hidden ones count as 0), or −1 if all are hidden. Keys in
        `without` are hidden too, and the remaining weights of every row sum to 1.

        >>> q = torch.zeros(1, 1, 4, 2)
        >>> head = Head(Call(q, q, q, Band(None, 0), 1.0))
        >>> head.tile(slice(0, 4), slice(0, 4), 2, 2).tolist(), head.tile(slice(0, 4), slice(0, 4), 2, 2, "mean").tolist()
        ([[1.0, -1.0], [0.3333333432674408, 0.3333333432674408]], [[0.5, -1.0], [0.2916666865348816, 0.2083333432674408]])
        >>> head.tile(slice(2, 3), slice(0, 4), without=[0]).round(decimals=6).tolist()  # the third row
        [[-1.0, 0.5, 0.5, -1.0]]
        """
        if pool not in ("max", "mean"):
            raise Problem("pool {pool} is not one of {pools}", pool=pool, pools="max, mean")
        rows, cols = (slice(*span.indices(size)[:2]) for span, size in ((rows, self.n), (cols, self.m)))
        excluded = tuple(sorted({int(j) for j in without}))
        size = -(-(rows.stop - rows.start) // tall), -(-(cols.stop - cols.start) // wide)
        largest, total = torch.full(size, -torch.inf), torch.zeros(size)
        lse = self._lse_without(excluded, rows) if excluded else self.lse

        def add(down: int, across: int, logs: Tensor, is_visible: bool) -> None:
            high, broad = -(-logs.shape[1] // tall), -(-logs.shape[0] // wide)
            at = slice(down, down + high), slice(across, across + broad)
            if pool == "max" or not is_visible:
                largest[at] = pool_cells(pool_cells(logs, wide, 0, "max"), tall, 1, "max").T
            else:  # nothing is hidden
                largest[at] = 0.0
            if pool == "mean":
                total[at] = pool_cells(pool_cells(logs.exp2_(), wide, 0, "sum"), tall, 1, "sum").T

        self._each_log_tile(rows, cols, tall, wide, excluded, lse, add)
        if pool == "mean":
            table = total / (
                cell_sizes(rows.stop - rows.start, tall)[:, None] * cell_sizes(cols.stop - cols.start, wide)
            )
        else:
            table = largest.exp2()
        return table.masked_fill_(largest == -torch.inf, -1.0)

    def _each_log_tile(
        self,
        rows: slice,
        cols: slice,
        tall: int,
        wide: int,
        excluded: tuple[int, ...],
        lse: Tensor,
        add: Callable[[int, int, Tensor, bool], None],
    ) -> None:
        """Call `add` with the visible part of a rectangle, in tiles of whole cells that fit into the cache.

        Its arguments are the first cell (down, across), the base-2 logs of the weights, keys down and queries across, −inf
        where hidden, of rows with the log-sums `lse` (N,), and True if nothing is hidden. Tiles of the same rows come one
        after the other, other rows at the same time.
        """
        lse = lse.nan_to_num(neginf=0.0)  # the scores hide rows without visible keys
        high, broad = (max(size // cell, 1) * cell for size, cell in zip(TILE, (tall, wide), strict=True))
        q = k = None
        if self.plain:  # as in _pool_tiles
            q = torch.cat([self.call.q[0, 0, rows] * self.call.scale, -lse[rows, None]], 1).div_(math.log(2))
            k = torch.nn.functional.pad(self.call.k[0, 0, cols], (0, 1), value=1.0)
        excluded_keys = torch.tensor(excluded, dtype=torch.long)

        def run_band(top: int) -> None:
            tile_rows = slice(top, min(top + high, rows.stop))
            reached = visible_keys(self.call.mask, self.n, self.m, tile_rows)
            first = cols.start + max(reached.start - cols.start, 0) // wide * wide
            for start in range(first, min(reached.stop, cols.stop), broad):
                tile_cols = slice(start, min(start + broad, cols.stop))
                inside = (
                    excluded_keys[(excluded_keys >= tile_cols.start) & (excluded_keys < tile_cols.stop)]
                    - tile_cols.start
                )
                on_diagonal = is_causal(self.call) and tile_cols.stop > tile_rows.start
                if q is not None and k is not None:
                    keys, queries = k[_relative(tile_cols, cols)], q[_relative(tile_rows, rows)]
                    buffer = parallel_tiles.scratch(len(keys) * len(queries)).view(len(keys), len(queries))
                    logs = torch.mm(keys, queries.T, out=buffer)
                    if on_diagonal:
                        logs.masked_fill_(_indices(tile_cols)[:, None] > _indices(tile_rows), -torch.inf)
                else:
                    logs = (self.scores(tile_rows, tile_cols).T - lse[tile_rows]).div_(math.log(2)).float()
                logs.index_fill_(0, inside, -torch.inf)
                is_visible = self.plain and not on_diagonal and not len(inside)
                add((top - rows.start) // tall, (start - cols.start) // wide, logs, is_visible)

        parallel_tiles.run_tasks(run_band, reversed(range(rows.start, rows.stop, high)))

    def know_without(self, shut: Sequence[int], left: Tensor) -> None:
        """Store each row's total weight on the keys not in `shut` (N,), as `layer_scan` finds it; NaN if unknown."""
        self._lse_of.setdefault(tuple(sorted(shut)), self.lse + left.log())

    @torch.no_grad()
    def _lse_without(self, excluded: tuple[int, ...], rows: slice) -> Tensor:
        """Return log Σ e^score (N,) over the keys that aren't excluded, of these rows at least; cached.

        Sums the remaining weights: 1 minus the excluded ones would be rounding alone for a head with nearly all of its
        weight on the first token.
        """
        lse = self._lse_of.setdefault(excluded, torch.full((self.n,), torch.nan))
        missing = lse[rows].isnan().nonzero()[:, 0] + rows.start
        if not len(missing):
            return lse
        rows = slice(int(missing[0]), int(missing[-1]) + 1)
        remaining = torch.zeros(rows.stop - rows.start)

        def add(down: int, _across: int, logs: Tensor, _is_visible: bool) -> None:
            remaining[down : down + logs.shape[1]] += logs.exp2_().sum(0)

        self._each_log_tile(rows, slice(0, self.m), 1, 1, excluded, self.lse, add)
        lse[rows] = self.lse[rows].float() + remaining.log()
        # Too small to compute from weights: use the scores.
        tiny = (remaining < TINY).nonzero()[:, 0] + rows.start
        for part in tiny.split(max(BLOCK // max(self.m, 1), 1)) if len(tiny) else ():
            table = self.scores(part.tolist()).float()
            table[:, list(excluded)] = -torch.inf
            lse[part] = table.logsumexp(-1)
        return lse

    def _pool_blocks(self, pooled: Tensor, tall: int, wide: int, pool: Pool) -> None:
        """Pool whole rows at a time, with any mask and bias."""
        for rows in self.blocks(least=tall):
            cols = visible_keys(self.call.mask, self.n, self.m, rows)
            if cols.start >= cols.stop:
                continue
            start, stop = cols.start // wide * wide, cols.stop  # whole cells
            shares = formula.weights(self.call, rows, slice(start, stop))[0, 0]
            joined = pool_cells(pool_cells(shares, wide, 1, pool), tall, 0, pool)
            at = rows.start // tall, start // wide
            pooled[at[0] : at[0] + joined.shape[0], at[1] : at[1] + joined.shape[1]] = joined

    def _pool_tiles(self, pooled: Tensor, tall: int, wide: int, pool: Pool) -> None:
        """Pool tiles of e^(q·k − lse) that stay in the cache: a second pass like the flash kernel's."""
        causal = is_causal(self.call)
        # With one more column, −lse against 1, the product is q·k − lse. Powers of 2, since those of e take longer, and much
        # longer for subnormal results.
        q = torch.cat([self.call.q[0, 0] * self.call.scale, -self.lse[:, None]], 1).div_(math.log(2))  # (N, D + 1)
        k = torch.nn.functional.pad(self.call.k[0, 0], (0, 1), value=1.0)  # (M, D + 1)
        high, broad = (max(size // cell, 1) * cell for size, cell in zip(TILE, (tall, wide), strict=True))

        def run_band(top: int) -> None:
            rows = slice(top, min(top + high, self.n))
            for start in range(0, rows.stop if causal else self.m, broad):
                cols = slice(start, min(start + broad, self.m))
                size = rows.stop - top, cols.stop - start
                shares = torch.mm(q[rows], k[cols].T, out=parallel_tiles.scratch(math.prod(size)).view(size)).exp2_()
                if causal and cols.stop > rows.start:  # on the diagonal
                    shares.tril_(rows.start - start)
                joined = pool_cells(pool_cells(shares, wide, 1, pool), tall, 0, pool)
                i, j = top // tall, start // wide
                pooled[i : i + joined.shape[0], j : j + joined.shape[1]] = joined

        parallel_tiles.run_tasks(run_band, reversed(range(0, self.n, high)))


def is_flash_call(call: Call) -> bool:
    """True for scaled q·k in float32 on the CPU, with a causal mask or none: what the flash kernel computes."""
    has_plain_mask = isinstance(call.mask, Full) or (is_causal(call) and call.q.shape[2] == call.k.shape[2])
    has_plain_dtype = call.q.dtype == call.k.dtype == call.v.dtype == torch.float32 and call.q.device.type == "cpu"
    has_options = any(option is not None for option in (call.bias, call.softcap, call.sinks))
    return has_plain_mask and has_plain_dtype and not has_options and 0 not in call.q.shape


def is_causal(call: Call) -> bool:
    """True if the mask is causal."""
    return isinstance(call.mask, Band) and (call.mask.left, call.mask.right) == (None, 0)


@torch.no_grad()
def row_lse(call: Call) -> Tensor:
    """Return log Σ e^score (H, N) of the first item of a flash call: stored with the call, or from the kernel again."""
    if call.lse is not None:
        return call.lse[0]
    return pieces.flash(call.q[:1], call.k[:1], call.v[:1], causal=is_causal(call), scale=call.scale)[1][0]


def _relative(span: slice, whole: slice) -> slice:
    return slice(span.start - whole.start, span.stop - whole.start)


def _indices(span: slice) -> Tensor:
    return torch.arange(span.start, span.stop)


def head_of(call: Call, item: int, head: int) -> Head:
    """Return a view of one head of a recorded call."""
    return Head(call.only([head], [item]).mapped(Tensor.cpu))  # views are computed where NumPy can read them


@torch.no_grad()
def shares(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Return the weights (H, R, C) of all heads of one item; `cols` must hold all keys that these rows may see."""
    return formula.weights(call.only(items=[item]), rows, cols)[0]


def allowed(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Return the mask of a rectangle, (H', R, C); H' is 1 if all heads share one mask."""
    item_call = call.only(items=[item])
    r, c = len(span_indices(rows, call.q.shape[2])), len(span_indices(cols, call.k.shape[2]))
    visible = item_call.allowed(rows, cols)[0]
    visible = visible.expand(visible.shape[0], r, c)
    if (bias := item_call.added(rows, cols)) is not None:
        hides = bias[0] == float("-inf")
        visible = visible & ~hides if bool(hides.any()) else visible
    return visible


@torch.no_grad()
def weights(call: Call, item: int, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Return exact weights (H, R, M) for a block of queries, the mask (H', R, M) and each row's entropy in nats (H, R).

    The same numbers as `Head.weights`, for all heads of a layer at once; the entropy leaves out what a sink takes.
    """
    item_call = call.only(items=[item])
    table = formula.scores(item_call, rows, hidden=HIDDEN)[0]
    shares = formula.softmax(table)
    top, largest = table.amax(-1), shares.amax(-1)  # largest = e^(most − most) / Σ e^(s − most)
    total = top - largest.log()  # log Σe^s
    # −Σ p·log p with p = e^s / Σe^s is log Σe^s − Σ p·s: no logarithm of every weight.
    entropy = total - torch.linalg.vecdot(shares, table)
    scale = (top > HIDDEN / 2).to(table.dtype)  # 0 for a row without visible keys
    if call.sinks is not None:
        scale = scale * formula.sink_factor(total[..., None], call.sinks)[..., 0]
    if call.sinks is not None or not bool(scale.all()):
        shares.mul_(scale[..., None])
    return shares, allowed(call, item, rows), entropy
