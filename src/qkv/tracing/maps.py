"""Weights from q and k on demand, exactly: a rectangle, a row, a column, or the whole pooled, at any length.

Nothing here holds an n×n matrix of a long text. Rows are computed a block at a time; what a block needs beyond itself is
the log of its rows' sums (`lse`), which is kept once computed.

One item and one head at a time, or all heads of a layer: N queries, M keys, D head width, R rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..attention import formula, pieces
from ..attention.formula import Call, places, reach, take
from ..attention.pooling import POOLS, cells, sizes
from ..attention.rules import Band, Full, Span
from ..words import Problem

BLOCK = 1 << 24  # numbers in a block of scores: 64 MB of float32
TILE = 512, 1024  # rows and columns of a tile that stays in the processor's cache: 2 MB
LARGE = 1 << 22  # scores from which on a map is pooled by tiles
HIDDEN = -1e30  # a score whose share is 0, and that times 0 is 0


@dataclass(frozen=True)
class Head:
    """One head of one item: q (N, D), k and v (M, D), and how its scores become weights."""

    call: Call  # of this one item and this one head

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
        r, c = len(places(rows, self.n)), len(places(cols, self.m))
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
            return sums(self.call)[0]
        reached = ((rows, reach(self.call.mask, self.n, self.m, rows)) for rows in self.blocks())
        return torch.cat([formula.lse(self.call, rows, cols)[0, 0] for rows, cols in reached])

    @property
    def plain(self) -> bool:
        """Nothing but q·k, scaled, and every key or every earlier key seen: what the flash kernel computes."""
        return plain(self.call)

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
    def pooled(self, bins: int, pool: str = "mean") -> Tensor:
        """The whole map in at most bins × bins cells, each the mean, maximum or sum of the weights it covers."""
        if pool not in POOLS:
            raise Problem("pool {pool} is not one of {pools}", pool=pool, pools=", ".join(POOLS))
        if bins < 1:
            raise Problem("bins is {bins}: give 1 or more", bins=bins)
        tall, wide = -(-self.n // bins), -(-self.m // bins)
        made = torch.zeros(-(-self.n // tall), -(-self.m // wide))
        if self.plain and self.n * self.m >= LARGE:
            self._pool_tiles(made, tall, wide, pool)
        else:
            self._pool_blocks(made, tall, wide, pool)
        if pool == "mean":
            made /= sizes(self.n, tall)[:, None] * sizes(self.m, wide)[None, :]
        return made

    def _pool_blocks(self, made: Tensor, tall: int, wide: int, pool: str) -> None:
        """Whole rows at a time: any mask, any bias."""
        for rows in self.blocks(least=tall):
            cols = reach(self.call.mask, self.n, self.m, rows)
            if cols.start >= cols.stop:
                continue
            start, stop = cols.start // wide * wide, cols.stop  # whole cells
            shares = formula.weights(self.call, rows, slice(start, stop))[0, 0]
            joined = cells(cells(shares, wide, 1, pool), tall, 0, pool)
            at = rows.start // tall, start // wide
            made[at[0] : at[0] + joined.shape[0], at[1] : at[1] + joined.shape[1]] = joined

    def _pool_tiles(self, made: Tensor, tall: int, wide: int, pool: str) -> None:
        """Tiles that never leave the cache, e^(q·k − lse), each pooled at once: a second pass like the flash kernel's."""
        causal = is_causal(self.call)
        # One more column, −lse against 1, and the product itself is q·k − lse.
        q = torch.cat([self.call.q[0, 0] * self.call.scale, -self.lse[:, None]], 1)  # (N, D + 1)
        k = torch.nn.functional.pad(self.call.k[0, 0], (0, 1), value=1.0)  # (M, D + 1)
        high, broad = (max(size // cell, 1) * cell for size, cell in zip(TILE, (tall, wide), strict=True))
        for top in range(0, self.n, high):
            rows = slice(top, min(top + high, self.n))
            for left in range(0, rows.stop if causal else self.m, broad):
                cols = slice(left, min(left + broad, self.m))
                shares = (q[rows] @ k[cols].T).exp_()
                if causal and cols.stop > rows.start:  # the diagonal runs through it
                    shares.tril_(rows.start - left)
                joined = cells(cells(shares, wide, 1, pool), tall, 0, pool)
                i, j = top // tall, left // wide
                made[i : i + joined.shape[0], j : j + joined.shape[1]] = joined


def plain(call: Call) -> bool:
    """Nothing but q·k, scaled, and every key or every earlier key seen: what the flash kernel computes."""
    seen = isinstance(call.mask, Full) or (is_causal(call) and call.q.shape[2] == call.k.shape[2])
    exact = call.q.dtype == call.k.dtype == call.v.dtype == torch.float32 and call.q.device.type == "cpu"
    return (
        seen and exact and call.bias is None and call.softcap is None and call.sinks is None and 0 not in call.q.shape
    )


def is_causal(call: Call) -> bool:
    """Is every earlier key seen, and no other?"""
    return isinstance(call.mask, Band) and (call.mask.left, call.mask.right) == (None, 0)


@torch.no_grad()
def sums(call: Call) -> Tensor:
    """log Σ e^score of every row of the first item of a plain call, (H, N): as its kernel left it, or from that kernel again."""
    if call.lse is not None:
        return call.lse[0]
    return pieces.flash(call.q[:1], call.k[:1], call.v[:1], causal=is_causal(call), scale=call.scale)[1][0]


def head_of(call: Call, item: int, head: int) -> Head:
    """One head of a recorded call, as something to ask."""
    return Head(call.only([head], [item]).mapped(Tensor.cpu))  # views are computed where NumPy can read them


@torch.no_grad()
def shares(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Weights of all heads of one item in a rectangle that holds all keys these rows may see, (H, R, C)."""
    return formula.weights(call.only(items=[item]), rows, cols)[0]


def allowed(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Who may look at whom in a rectangle, (H', R, C): H' is 1 where all heads share one mask."""
    one = call.only(items=[item])
    r, c = len(places(rows, call.q.shape[2])), len(places(cols, call.k.shape[2]))
    seen = one.allowed(rows, cols)[0]
    seen = seen.expand(seen.shape[0], r, c)
    if (bias := one.added(rows, cols)) is not None:
        hides = bias[0] == float("-inf")
        seen = seen & ~hides if bool(hides.any()) else seen
    return seen


@torch.no_grad()
def weights(call: Call, item: int, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Exact weights of all heads of one item for a block of queries, (H, R, M); who may see whom, (H', R, M); and the
    entropy of every row in nats, (H, R), of what it doesn't give to a sink.

    The same numbers as `Head.weights`, all heads of a layer in one product.
    """
    one = call.only(items=[item])
    table = formula.scores(one, rows, hidden=HIDDEN)[0]
    shares = formula.softmax(table)
    most, largest = table.amax(-1), shares.amax(-1)  # largest = e^(most − most) / Σ e^(s − most)
    total = most - largest.log()  # log Σe^s
    # −Σ p·log p with p = e^s / Σe^s is log Σe^s − Σ p·s: no logarithm of every weight.
    entropy = total - torch.linalg.vecdot(shares, table)
    left = (most > HIDDEN / 2).to(table.dtype)  # a row that may see nothing gives 0
    if call.sinks is not None:
        left = left * formula.kept(total[..., None], call.sinks)[..., 0]
    if call.sinks is not None or not bool(left.all()):
        shares.mul_(left[..., None])
    return shares, allowed(call, item, rows), entropy
