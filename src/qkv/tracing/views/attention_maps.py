"""Weights from q and k on demand, exactly: a rectangle, a row, a column, or the whole pooled, at any length.

Nothing here holds an n×n matrix of a long text. Rows are computed a block at a time; what a block needs beyond itself is
the log of its rows' sums (`lse`), which is kept once computed.

One item and one head at a time, or all heads of a layer: N queries, M keys, D head width, R rows of a block.
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
HIDDEN = -1e30  # a score whose share is 0, and that times 0 is 0
TINY = 1e-30  # a share below which float32 has few digits left


@dataclass(frozen=True)
class Head:
    """One head of one item: q (N, D), k and v (M, D), and how its scores become weights."""

    call: Call  # of this one item and this one head
    _lse_of: dict[tuple[int, ...], Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def n(self) -> int:
        """Queries."""
        return self.call.q.shape[2]

    @property
    def m(self) -> int:
        """Keys."""
        return self.call.k.shape[2]

    @property
    def bare(self) -> bool:
        """Kept as weights alone: q and k have width 0, the bias is the weights' logarithm."""
        return self.call.q.shape[3] == 0

    def allowed(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Who may look at whom in a rectangle: bool (R, ·)."""
        r, c = len(span_indices(rows, self.n)), len(span_indices(cols, self.m))
        return self.call.allowed(rows, cols)[0, 0].expand(r, c)

    @torch.no_grad()
    def scores(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Scaled, capped, biased and masked (−inf): (R, ·), in float32 or better."""
        return formula.scores(self.call, rows, cols)[0, 0]

    @torch.no_grad()
    def weights(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Exact shares (R, ·): each row's softmax is over all its keys, whatever columns are asked for."""
        return take(formula.weights(self.call, rows)[0, 0], cols, 1)

    @cached_property
    @torch.no_grad()
    def lse(self) -> Tensor:
        """log Σ e^score of every row (N,); −inf for a row that may see nothing."""
        if self.plain:
            return row_lse(self.call)[0]
        reached = ((rows, visible_keys(self.call.mask, self.n, self.m, rows)) for rows in self.blocks())
        return torch.cat([formula.lse(self.call, rows, cols)[0, 0] for rows, cols in reached])

    @property
    def plain(self) -> bool:
        """Nothing but q·k, scaled, and every key or every earlier key seen: what the flash kernel computes."""
        return is_flash_call(self.call)

    @torch.no_grad()
    def column(self, key: int) -> Tensor:
        """Who looks at this key: its share in every row (N,)."""
        table = self.scores(None, [key])[:, 0]
        return (table - self.lse.to(table.dtype)).exp().nan_to_num_(0.0)  # −inf − −inf: a row that sees nothing

    def blocks(self, least: int = 1) -> Iterator[slice]:
        """Rows in blocks that fit into BLOCK scores, each a multiple of `least` rows."""
        size = max(BLOCK // max(self.m, 1), 1)
        size = max(size // least, 1) * least
        for start in range(0, self.n, size):
            yield slice(start, min(start + size, self.n))

    @torch.no_grad()
    def pooled(self, bins: int, pool: Pool = "mean") -> Tensor:
        """The whole map in at most bins × bins cells, each the mean, maximum or sum of the weights it covers."""
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
        """A rectangle of the map in cells of `tall` queries by `wide` keys, each the largest or the mean of the exact weights
        it covers (hidden ones count as 0): (cells down, cells across); −1 where all that a cell covers is hidden.

        Keys `without` which the map is asked for are hidden too, and what is left of every row sums to 1.

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
            else:  # nothing of it is hidden
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
        """Hand over what of a rectangle can be seen, in pieces of whole cells that stay near the processor: which cell a
        piece begins with, the logs (of base 2) of its weights, whose rows sum to e^lse (N,), keys down and queries across,
        −inf where hidden, and whether it is known that nothing is. Pieces of the same rows come one after the other, those
        of others meanwhile."""
        lse = lse.nan_to_num(neginf=0.0)  # a row that sees nothing is hidden by its scores
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
                on_diagonal = is_causal(self.call) and tile_cols.stop > tile_rows.start  # by the diagonal
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
        """Take over what each row gives to the keys that aren't shut (N,), from who looked at all of it; NaN where unknown."""
        self._lse_of.setdefault(tuple(sorted(shut)), self.lse + left.log())

    @torch.no_grad()
    def _lse_without(self, excluded: tuple[int, ...], rows: slice) -> Tensor:
        """log Σ e^score (N,) over the keys that aren't shut, of these rows at least; what was computed is kept.

        The weights that are left are summed, not what is shut taken from 1: of a head that gives nearly all to its first
        token nothing would be left but rounding.
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
        # Too little is left, or nothing, for a share of all to say how much.
        tiny = (remaining < TINY).nonzero()[:, 0] + rows.start
        for part in tiny.split(max(BLOCK // max(self.m, 1), 1)) if len(tiny) else ():
            table = self.scores(part.tolist()).float()
            table[:, list(excluded)] = -torch.inf
            lse[part] = table.logsumexp(-1)
        return lse

    def _pool_blocks(self, pooled: Tensor, tall: int, wide: int, pool: Pool) -> None:
        """Whole rows at a time: any mask, any bias."""
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
        """Tiles that never leave the cache, e^(q·k − lse), each pooled at once: a second pass like the flash kernel's."""
        causal = is_causal(self.call)
        # One more column, −lse against 1, and the product itself is q·k − lse; powers of 2, since those of e are slow, and
        # very slow where they are too small for a number of normal size.
        q = torch.cat([self.call.q[0, 0] * self.call.scale, -self.lse[:, None]], 1).div_(math.log(2))  # (N, D + 1)
        k = torch.nn.functional.pad(self.call.k[0, 0], (0, 1), value=1.0)  # (M, D + 1)
        high, broad = (max(size // cell, 1) * cell for size, cell in zip(TILE, (tall, wide), strict=True))

        def run_band(top: int) -> None:
            rows = slice(top, min(top + high, self.n))
            for start in range(0, rows.stop if causal else self.m, broad):
                cols = slice(start, min(start + broad, self.m))
                size = rows.stop - top, cols.stop - start
                shares = torch.mm(q[rows], k[cols].T, out=parallel_tiles.scratch(math.prod(size)).view(size)).exp2_()
                if causal and cols.stop > rows.start:  # the diagonal runs through it
                    shares.tril_(rows.start - start)
                joined = pool_cells(pool_cells(shares, wide, 1, pool), tall, 0, pool)
                i, j = top // tall, start // wide
                pooled[i : i + joined.shape[0], j : j + joined.shape[1]] = joined

        parallel_tiles.run_tasks(run_band, reversed(range(0, self.n, high)))


def is_flash_call(call: Call) -> bool:
    """Nothing but q·k, scaled, and every key or every earlier key seen: what the flash kernel computes."""
    has_plain_mask = isinstance(call.mask, Full) or (is_causal(call) and call.q.shape[2] == call.k.shape[2])
    has_plain_dtype = call.q.dtype == call.k.dtype == call.v.dtype == torch.float32 and call.q.device.type == "cpu"
    return (
        has_plain_mask
        and has_plain_dtype
        and call.bias is None
        and call.softcap is None
        and call.sinks is None
        and 0 not in call.q.shape
    )


def is_causal(call: Call) -> bool:
    """Is every earlier key seen, and no other?"""
    return isinstance(call.mask, Band) and (call.mask.left, call.mask.right) == (None, 0)


@torch.no_grad()
def row_lse(call: Call) -> Tensor:
    """log Σ e^score of every row of the first item of a plain call, (H, N): as its kernel left it, or from that kernel again."""
    if call.lse is not None:
        return call.lse[0]
    return pieces.flash(call.q[:1], call.k[:1], call.v[:1], causal=is_causal(call), scale=call.scale)[1][0]


def _relative(span: slice, whole: slice) -> slice:
    return slice(span.start - whole.start, span.stop - whole.start)


def _indices(span: slice) -> Tensor:
    return torch.arange(span.start, span.stop)


def head_of(call: Call, item: int, head: int) -> Head:
    """One head of a recorded call, as something to ask."""
    return Head(call.only([head], [item]).mapped(Tensor.cpu))  # views are computed where NumPy can read them


@torch.no_grad()
def shares(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Weights of all heads of one item in a rectangle that holds all keys these rows may see, (H, R, C)."""
    return formula.weights(call.only(items=[item]), rows, cols)[0]


def allowed(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Who may look at whom in a rectangle, (H', R, C): H' is 1 where all heads share one mask."""
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
    """Exact weights of all heads of one item for a block of queries, (H, R, M); who may see whom, (H', R, M); and the
    entropy of every row in nats, (H, R), of what it doesn't give to a sink.

    The same numbers as `Head.weights`, all heads of a layer in one product.
    """
    item_call = call.only(items=[item])
    table = formula.scores(item_call, rows, hidden=HIDDEN)[0]
    shares = formula.softmax(table)
    top, largest = table.amax(-1), shares.amax(-1)  # largest = e^(most − most) / Σ e^(s − most)
    total = top - largest.log()  # log Σe^s
    # −Σ p·log p with p = e^s / Σe^s is log Σe^s − Σ p·s: no logarithm of every weight.
    entropy = total - torch.linalg.vecdot(shares, table)
    scale = (top > HIDDEN / 2).to(table.dtype)  # a row that may see nothing gives 0
    if call.sinks is not None:
        scale = scale * formula.sink_factor(total[..., None], call.sinks)[..., 0]
    if call.sinks is not None or not bool(scale.all()):
        shares.mul_(scale[..., None])
    return shares, allowed(call, item, rows), entropy
