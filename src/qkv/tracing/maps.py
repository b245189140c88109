"""Weights from q and k on demand, exactly: a rectangle, a row, a column, or the whole pooled, at any length.

Nothing here holds an n×n matrix of a long text. Rows are computed a block at a time; what a block needs beyond itself is
the log of its rows' sums (`lse`), which is kept once computed.

One item and one head at a time, or all heads of a layer: N queries, M keys, D head width, R rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..attention import masks
from ..attention.attend import Call
from ..attention.rules import Band, Full
from ..words import Problem

BLOCK = 1 << 24  # numbers in a block of scores: 64 MB of float32
TILE = 512, 1024  # rows and columns of a tile that stays in the processor's cache: 2 MB
LARGE = 1 << 22  # scores from which on a map is pooled by tiles
HIDDEN = -1e30  # a score whose share is 0, and that times 0 is 0
Span = slice | Sequence[int] | None
POOLS = ("mean", "max", "sum")


@dataclass(frozen=True)
class Head:
    """One head of one item: q (N, D), k and v (M, D), and how its scores become weights."""

    call: Call  # of this one item and this one head
    mask: masks.Mask  # of the whole call
    item: int
    head: int
    batch: int
    heads: int

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
        sizes = dict(batch=self.batch, heads=self.heads, rows=rows, cols=cols, device=self.call.q.device)
        full = self.mask.tensor(self.n, self.m, **sizes)  # type: ignore[arg-type]
        full = full[min(self.item, full.shape[0] - 1), min(self.head, full.shape[1] - 1)]
        r, c = len(_places(rows, self.n)), len(_places(cols, self.m))
        return full.expand(r, c)

    def scores(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Scaled, capped, biased and masked (−inf): (R, ·), in float32 or better."""
        call = self.call
        exact = torch.float64 if call.q.dtype == torch.float64 else torch.float32
        q, k = _take(call.q[0, 0], rows).to(exact), _take(call.k[0, 0], cols).to(exact)
        scores = (q * call.scale) @ k.T
        if call.softcap is not None:
            scores = call.softcap * torch.tanh(scores / call.softcap)
        if call.bias is not None:
            bias = call.bias.expand(1, 1, self.n, self.m)[0, 0]
            scores = scores + _take(_take(bias, rows), cols, dim=1)
        if not isinstance(self.mask, Full):
            scores = scores.masked_fill(~self.allowed(rows, cols), float("-inf"))
        return scores

    def weights(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Exact shares (R, ·): each row's softmax is over all its keys, whatever columns are asked for."""
        whole = self._share(self.scores(rows))
        return whole if cols is None else _take(whole, cols, dim=1)

    def _share(self, scores: Tensor) -> Tensor:
        """Softmax of whole rows, in place; a row that may see nothing gives 0."""
        sink = self._sink(scores)
        most = scores.amax(-1, keepdim=True)
        most = most if sink is None else torch.maximum(most, sink)
        most = most.masked_fill(most == float("-inf"), 0.0)
        shares = scores.sub_(most).exp_()
        total = shares.sum(-1, keepdim=True)
        total = total if sink is None else total + (sink - most).exp()
        return shares.div_(total.masked_fill(total == 0, 1.0))

    def _sink(self, like: Tensor) -> Tensor | None:
        return None if self.call.sinks is None else self.call.sinks.reshape(1, 1).to(like.dtype)

    @cached_property
    def lse(self) -> Tensor:
        """log Σ e^score of every row (N,); −inf for a row that may see nothing."""
        if self.plain:
            return self._flash_lse()
        parts = []
        for rows in self.blocks():
            low = torch.logsumexp(self.scores(rows, self.reach(rows)), -1)
            sink = self._sink(low)
            parts.append(low if sink is None else torch.logaddexp(low, sink[0]))
        return torch.cat(parts)

    @property
    def plain(self) -> bool:
        """Nothing but q·k, scaled, and every key or every earlier key seen: what the flash kernel computes."""
        call, causal = self.call, isinstance(self.mask, Band) and (self.mask.left, self.mask.right) == (None, 0)
        seen = isinstance(self.mask, Full) or (causal and self.n == self.m)
        exact = call.q.dtype == call.k.dtype == call.v.dtype == torch.float32 and call.q.device.type == "cpu"
        return seen and exact and call.bias is None and call.softcap is None and call.sinks is None

    def _flash_lse(self) -> Tensor:
        """PyTorch's flash kernel knows the sums of its rows anyhow."""
        call, causal = self.call, not isinstance(self.mask, Full)
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        with torch.no_grad():
            return kernel(call.q, call.k, call.v, 0.0, causal, scale=call.scale)[1].reshape(-1)

    def column(self, key: int) -> Tensor:
        """Who looks at this key: its share in every row (N,)."""
        scores = self.scores(None, [key])[:, 0]
        return (scores - self.lse.to(scores.dtype)).exp().nan_to_num_(0.0)  # −inf − −inf: a row that sees nothing

    def blocks(self, least: int = 1) -> Iterator[slice]:
        """Rows in blocks that fit into BLOCK scores, each a multiple of `least` rows."""
        size = max(BLOCK // max(self.m, 1), 1)
        size = max(size // least, 1) * least
        for start in range(0, self.n, size):
            yield slice(start, min(start + size, self.n))

    def reach(self, rows: slice) -> slice | None:
        """The keys that these rows can see at all, where the mask is causal or a window; None is all of them."""
        cols = reach(self.mask, self.n, self.m, rows)
        return None if (cols.start, cols.stop) == (0, self.m) else cols

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
            made /= _sizes(self.n, tall)[:, None] * _sizes(self.m, wide)[None, :]
        return made

    def _pool_blocks(self, made: Tensor, tall: int, wide: int, pool: str) -> None:
        """Whole rows at a time: any mask, any bias."""
        for rows in self.blocks(least=tall):
            cols = self.reach(rows)
            start = 0 if cols is None else cols.start // wide * wide  # whole cells
            stop = self.m if cols is None else cols.stop
            shares = self._share(self.scores(rows, slice(start, stop)))
            joined = cells(cells(shares, wide, 1, pool), tall, 0, pool)
            at = rows.start // tall, start // wide
            made[at[0] : at[0] + joined.shape[0], at[1] : at[1] + joined.shape[1]] = joined

    def _pool_tiles(self, made: Tensor, tall: int, wide: int, pool: str) -> None:
        """Tiles that never leave the cache, e^(q·k − lse), each pooled at once: a second pass like the flash kernel's."""
        causal = not isinstance(self.mask, Full)
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


def head_of(call: Call, item: int, head: int) -> Head:
    """One head of a recorded call, as something to ask."""
    batch, heads = call.q.shape[:2]
    kv = head // (heads // call.k.shape[1])
    bias = call.bias
    if bias is not None:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
        bias = bias[min(item, bias.shape[0] - 1), min(head, bias.shape[1] - 1)][None, None].cpu()
    one = Call(
        call.q[item, head][None, None].cpu(),  # views are computed where NumPy can read them
        call.k[item, kv][None, None].cpu(),
        call.v[item, kv][None, None].cpu(),
        masks.full(),
        call.scale,
        bias,
        call.softcap,
        None if call.sinks is None else call.sinks.reshape(-1)[head].cpu(),
        call.name,
    )
    return Head(one, call.mask, item, head, batch, heads)


def scores(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Scores of all heads of one item in a rectangle, (H, R, C), −inf where hidden: `Head.scores` in one product."""
    heads, n, width = call.q.shape[1:]
    groups, m = call.k.shape[1:3]
    cols = slice(0, m) if cols is None else cols
    exact = torch.float64 if call.q.dtype == torch.float64 else torch.float32
    q = call.q[item, :, rows].to(exact) * call.scale  # (H, R, D)
    r, c = q.shape[1], cols.stop - cols.start
    q = q.reshape(groups, heads // groups * r, width)  # a group's heads share its keys
    made = (q @ call.k[item, :, cols].to(exact).transpose(1, 2)).reshape(heads, r, c)
    if call.softcap is not None:
        made = call.softcap * torch.tanh(made / call.softcap)
    if call.bias is not None:
        made += _bias(call, item, rows, cols).to(exact)
    for part in _doubtful(call.mask, n, m, rows, cols):
        inside = slice(part.start - cols.start, part.stop - cols.start)
        made[..., inside].masked_fill_(~allowed(call, item, rows, part), float("-inf"))
    return made


def shares(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Weights of all heads of one item in a rectangle that holds all keys these rows may see, (H, R, C)."""
    table = scores(call, item, rows, cols)
    made = table.softmax(-1)
    if call.sinks is not None:
        made *= (table.logsumexp(-1, keepdim=True) - call.sinks.reshape(-1, 1, 1).to(table.dtype)).sigmoid()
    if bool(made[..., :1].isnan().any()):  # a row that may see nothing gives 0
        made.masked_fill_((table == float("-inf")).all(-1, keepdim=True), 0.0)
    return made


def allowed(call: Call, item: int, rows: slice, cols: slice | None = None) -> Tensor:
    """Who may look at whom in a rectangle, (H', R, C): H' is 1 where all heads share one mask."""
    batch, heads, n, _ = call.q.shape
    m = call.k.shape[2]
    cols = slice(0, m) if cols is None else cols
    r, c = rows.stop - rows.start, cols.stop - cols.start
    seen = torch.ones(1, r, c, dtype=torch.bool, device=call.q.device)
    if not isinstance(call.mask, Full):
        rule = call.mask.tensor(n, m, batch=batch, heads=heads, rows=rows, cols=cols, device=call.q.device)
        rule = rule[min(item, rule.shape[0] - 1)]
        seen = rule.expand(rule.shape[0], r, c)
    if call.bias is not None:
        hides = _bias(call, item, rows, cols) == float("-inf")
        seen = seen & ~hides if bool(hides.any()) else seen
    return seen


def reach(mask: masks.Mask, n: int, m: int, rows: slice) -> slice:
    """From the first key to the last that these of n queries can see at all, as far as bands of the mask tell."""
    low, high = 0, m
    for rule in mask.terms():
        if isinstance(rule, Band):
            first, last = rows.start + m - n, rows.stop - 1 + m - n
            low = low if rule.left is None else max(low, first - rule.left)
            high = high if rule.right is None else min(high, last + rule.right + 1)
    return slice(min(low, high), max(low, high, 0))


def _doubtful(mask: masks.Mask, n: int, m: int, rows: slice, cols: slice) -> list[slice]:
    """The keys of a rectangle that not all of its rows may see. Inside a band those are few: its edges."""
    rules = [rule for rule in mask.terms() if not isinstance(rule, Full)]
    if not all(isinstance(rule, Band) for rule in rules):
        return [cols]
    low, high = cols.start, cols.stop
    first, last = rows.start + m - n, rows.stop - 1 + m - n
    for rule in rules:
        assert isinstance(rule, Band)
        low = low if rule.left is None else max(low, last - rule.left)
        high = high if rule.right is None else min(high, first + rule.right + 1)
    if low >= high:
        return [cols]
    return [part for part in (slice(cols.start, low), slice(high, cols.stop)) if part.start < part.stop]


def _bias(call: Call, item: int, rows: slice, cols: slice) -> Tensor:
    """A rectangle of the bias, for every head or for all of them alike: (H', R', C')."""
    assert call.bias is not None
    bias = call.bias.reshape((1,) * (4 - call.bias.ndim) + tuple(call.bias.shape))
    bias = bias[min(item, bias.shape[0] - 1)]
    bias = bias[:, rows] if bias.shape[1] > 1 or call.q.shape[2] == 1 else bias
    return bias[..., cols] if bias.shape[2] > 1 or call.k.shape[2] == 1 else bias


def weights(call: Call, item: int, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Exact weights of all heads of one item for a block of queries, (H, R, M); who may see whom, (H', R, M); and the
    entropy of every row in nats, (H, R), of what it doesn't give to a sink.

    The same numbers as `Head.weights`, all heads of a layer in one product.
    """
    table, seen = scores(call, item, rows).clamp_(min=HIDDEN), allowed(call, item, rows)
    shares = table.softmax(-1)
    most, largest = table.amax(-1), shares.amax(-1)  # largest = e^(most − most) / Σ e^(s − most)
    # −Σ p·log p with p = e^s / Σe^s is log Σe^s − Σ p·s: no logarithm of every weight.
    entropy = most - largest.log() - torch.linalg.vecdot(shares, table)
    kept = (most > HIDDEN / 2).to(table.dtype)  # a row that may see nothing gives 0
    if call.sinks is not None:
        kept = kept / (1 + largest * (call.sinks.reshape(-1, 1).to(kept.dtype) - most.clamp(min=HIDDEN / 2)).exp())
    if call.sinks is not None or not bool(kept.all()):
        shares.mul_(kept[..., None])
    return shares, seen, entropy


def cells(table: Tensor, size: int, dim: int, pool: str) -> Tensor:
    """Neighbours joined, `size` at a time, along an axis; the last cell may cover fewer."""
    if size == 1:
        return table
    count = table.shape[dim]
    whole = count // size * size
    joined = table.narrow(dim, 0, whole).unflatten(dim, (-1, size))
    made = joined.amax(dim + 1) if pool == "max" else joined.sum(dim + 1)
    if whole < count:
        rest = table.narrow(dim, whole, count - whole)
        last = rest.amax(dim, keepdim=True) if pool == "max" else rest.sum(dim, keepdim=True)
        made = torch.cat([made, last], dim)
    return made


def _sizes(count: int, size: int) -> Tensor:
    sizes = torch.full((-(-count // size),), float(size))
    if count % size:
        sizes[-1] = count % size
    return sizes


def _take(table: Tensor, span: Span, dim: int = 0) -> Tensor:
    if span is None:
        return table
    if isinstance(span, slice):
        start, stop, step = span.indices(table.shape[dim])
        if step == 1:
            return table.narrow(dim, start, max(stop - start, 0))
    return table.index_select(dim, torch.as_tensor(_places(span, table.shape[dim]), device=table.device))


def _places(span: Span, size: int) -> range | list[int]:
    if span is None:
        return range(size)
    if isinstance(span, slice):
        return range(*span.indices(size))
    places = [int(i) for i in span]
    for i in places:
        if not -size <= i < size:
            raise Problem("there is no token {place}: they count from 0 to {last}", place=i, last=size - 1)
    return [i % size for i in places]
