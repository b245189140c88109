"""Scan all weights of a layer once without storing them: a small picture of every head, each query's largest link, entropy.

There are two methods with the same results. `by_blocks` computes whole rows of exact weights, for any mask, bias and sinks.
`by_tiles` is for calls that the flash kernel can compute, whose log-sums of rows (lse) are known: the log of a weight is one
product, log w = q·k − lse, in tiles that fit into the cache. Maxima are taken of logs; powers are needed only for the
entropy, −Σ w·log w. Logs are of base 2: powers of 2 take a third of the time of those of e, a tenth for subnormal results.

A row's maximum is taken over the maxima of small groups of keys, so that hiding some keys updates only their groups.

H heads, N queries, M keys, D head width, R rows of a block, C columns of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...attention.formula import Call, visible_keys
from ...attention.pooling import pool_cells
from ..study.patterns import identities
from . import attention_maps, parallel_tiles
from .token_labels import Tokens

BLOCK = 1 << 20  # scores of a block, where that holds a row of a picture's cells: 4 MB
LARGE = 1 << 16  # scores from which on tiles are faster
TILE = 512, 1024  # queries and keys of a tile
WIDE = 64  # columns whose maximum is stored: a multiple of any processor's vectors
GROUP = 8  # keys of a tile whose maximum is stored
HIDDEN = -1e30  # the log of a weight of 0; unlike −inf it may be multiplied by 0


class LinkFilter:
    """Which pairs count as links. Excludes special tokens and, in self-attention, a token's link to itself and to key 0 (the
    attention sink)."""

    def __init__(self, part: str, queries: Tokens, keys: Tokens) -> None:
        self.is_self = part != "cross"
        self.counted = 1 - torch.tensor(queries.special).float()  # (N,)
        first = [0] if part not in ("cross", "mixers") else []
        self.excluded = sorted({*first, *(j for j, special in enumerate(keys.special) if special)})
        self.ids = identities(keys) if self.is_self else None
        # Each query's position among the keys, and the range of its neighbours, by whole characters.
        self.position = (torch.arange(len(queries)) + len(keys) - len(queries)).clamp(min=0)  # (N,)
        before, after = _neighbours(keys)
        self.neighbours_from, self.neighbours_to = before[self.position], after[self.position]  # (N,)


def _neighbours(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """Return, for every token, the start of the previous character and the end of the next one.

    >>> before, after = _neighbours(Tokens(("<E6><88>", "<91>", "a", "b"), whole=(("我", 0, 2), ("a", 2, 3), ("b", 3, 4))))
    >>> before.tolist(), after.tolist()
    ([0, 0, 0, 2], [3, 3, 4, 4])
    """
    starts, ends = [first for _, first, _ in tokens.whole], [end for _, _, end in tokens.whole]
    sizes = torch.tensor(ends) - torch.tensor(starts)
    before = torch.tensor([starts[0], *starts[:-1]] if starts else [], dtype=torch.long)
    after = torch.tensor([*ends[1:], ends[-1]] if ends else [], dtype=torch.long)
    return before.repeat_interleave(sizes), after.repeat_interleave(sizes)


@dataclass(frozen=True)
class LayerScan:
    """The result of scanning a layer. Values of special queries are meaningless."""

    picture: Tensor  # (H, rows, cols): the maximum of each cell
    largest: Tensor  # (H, N): each query's largest weight on a linkable key
    key: Tensor  # (H, N): that key
    largest_far: Tensor  # (H, N): the same without neighbours; in cross-attention with them
    entropy: Tensor  # (H,): in nats, without a sink's share, the mean over queries that aren't special
    # (H, N): each query's weight on keys that aren't excluded by `LinkFilter`; NaN if too small for float32
    linkable: Tensor | None = None


@torch.no_grad()
def scan_layer(call: Call, links: LinkFilter, tall: int, wide: int) -> LayerScan:
    """Scan all heads of the first item; a cell of the picture is `tall` queries by `wide` keys."""
    large = call.q.shape[2] * call.k.shape[2] >= LARGE and attention_maps.is_flash_call(call)
    return by_tiles(call, links, tall, wide) if large else by_blocks(call, links, tall, wide)


def by_blocks(call: Call, links: LinkFilter, tall: int, wide: int) -> LayerScan:
    """Scan all heads at once, a block of queries at a time."""
    heads, n = call.q.shape[1:3]
    m = call.k.shape[2]
    picture = torch.zeros(heads, -(-n // tall), -(-m // wide))
    most, away, entropy = torch.zeros(3, heads, n)
    keys = torch.zeros(heads, n, dtype=torch.long)
    step = max(1, BLOCK // max(heads * m, 1) // tall) * tall
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        cols = visible_keys(call.mask, n, m, rows)
        if cols.start >= cols.stop:
            continue
        cols = slice(cols.start // wide * wide, cols.stop)  # whole cells
        shares = attention_maps.shares(call, 0, rows, cols)
        small = pool_cells(pool_cells(shares, tall, 1, "max"), wide, 2, "max")
        at = start // tall, cols.start // wide
        picture[:, at[0] : at[0] + small.shape[1], at[1] : at[1] + small.shape[2]] = small
        entropy[:, rows] = _entropy(shares, call.sinks is not None)

        block = _Block(shares, cols.start)
        block.close(links.excluded)
        if links.is_self:
            block.hide(links.position[rows], links.position[rows] + 1)
        most[:, rows], keys[:, rows] = block.largest()
        if links.is_self:
            block.hide(links.neighbours_from[rows], links.neighbours_to[rows])
            away[:, rows] = block.cells.amax(-1)
    entropy = (entropy * links.counted).sum(-1) / links.counted.sum().clamp(min=1)
    return LayerScan(picture, most, keys, away if links.is_self else most, entropy)


def _entropy(shares: Tensor, sinks: bool) -> Tensor:
    """Return the entropy of every row, (H, R); with sinks, that of w / Σw."""
    spread = torch.special.entr(shares).sum(-1)
    if not sinks:
        return spread
    total = shares.sum(-1)
    return torch.where(total > 0, spread / total + total.log(), 0.0)


class _Block:
    """A block of weights of all heads, (H, R, C), and the maximum of every WIDE columns, (H, R, cells), kept up to date."""

    def __init__(self, shares: Tensor, begin: int) -> None:
        self.shares, self.begin = shares, begin
        self.wide = min(WIDE, shares.shape[2])
        self.cells = pool_cells(shares, self.wide, 2, "max")

    def close(self, keys: Sequence[int]) -> None:
        """Hide keys from every row."""
        inside = [j - self.begin for j in keys if 0 <= j - self.begin < self.shares.shape[2]]
        self.shares[..., inside] = 0
        for cell in {j // self.wide for j in inside}:
            self._again(cell, cell + 1)

    def hide(self, low: Tensor, high: Tensor) -> None:
        """Hide from each row the keys from its `low` up to its `high` (R,)."""
        size = self.shares.shape[2]
        first, last = (min(max(int(edge) - self.begin, 0), size) for edge in (low.min(), high.max()))
        if first >= last:
            return
        keys = torch.arange(first, last) + self.begin
        self.shares[..., first:last].masked_fill_((keys >= low[:, None]) & (keys < high[:, None]), 0.0)
        self._again(first // self.wide, -(-last // self.wide))

    def _again(self, first: int, last: int) -> None:
        columns = self.shares[..., first * self.wide : last * self.wide]
        self.cells[..., first:last] = pool_cells(columns, self.wide, 2, "max")

    def largest(self) -> tuple[Tensor, Tensor]:
        """Return the largest weight of each row, (H, R), and its key."""
        most, cell = self.cells.max(-1)
        columns = cell[..., None] * self.wide + torch.arange(self.wide)
        columns.clamp_(max=self.shares.shape[2] - 1)
        key = columns.gather(2, self.shares.gather(2, columns).argmax(-1, keepdim=True))[..., 0]
        return most, self.begin + key


def by_tiles(call: Call, links: LinkFilter, tall: int, wide: int) -> LayerScan:
    """Scan tiles of base-2 logs, keys down and queries across, so that maxima over keys are taken for many queries at once."""
    heads, n = call.q.shape[1:3]
    groups, m = call.k.shape[1:3]
    slots, causal = _Slots(m, wide), attention_maps.is_causal(call)
    # With two more columns, −lse against 1 and 1 against HIDDEN in empty slots, the product is log w.
    q = torch.cat([call.q[0] * call.scale, -attention_maps.row_lse(call)[..., None]], 2).div_(math.log(2))
    q = F.pad(q, (0, 1), value=1.0)  # (H, N, D + 2)
    k = slots.filled(call.k[0])  # (G, slots, D + 2)
    picture = torch.full((heads, -(-n // tall), slots.cells), HIDDEN)
    most, away = torch.full((2, heads, n), HIDDEN)
    at = torch.zeros(heads, n, dtype=torch.long)
    step = max(TILE[0] // tall, 1) * tall
    bands = [slice(top, min(top + step, n)) for top in range(0, n, step)]
    tiles = [
        [_Tile(slots, span, rows, links, causal) for span in slots.spans(rows.stop if causal else m)] for rows in bands
    ]
    spread, linkable = torch.zeros(heads, len(bands)), torch.zeros(heads, n)

    def scan_band(task: tuple[int, int]) -> None:
        """Scan a band of rows of one head."""
        head, band = task
        rows = bands[band]
        best, best_far = most[head, rows], away[head, rows]
        for tile in tiles[band]:
            logs, shares = (parallel_tiles.scratch(tile.size, which).view(-1, tile.broad) for which in (0, 1))
            torch.mm(k[head * groups // heads, tile.span], q[head, rows].T, out=logs)
            largest = tile.start(logs)
            small = pool_cells(largest.view(-1, slots.parts, tile.broad).amax(1), tall, 1, "max").T
            target = picture[head, rows.start // tall :, tile.first // slots.cell :]
            target[: small.shape[0], : small.shape[1]] = small
            linkable[head, rows] += tile.linkable(torch.exp2(logs, out=shares))
            tile.drop_special(logs, shares)
            spread[head, band] -= torch.dot(shares.flatten(), logs.flatten())
            tile.close(logs, largest)
            highest, slot = tile.most(logs, largest)
            at[head, rows] = torch.where(highest > best, slot, at[head, rows])
            torch.maximum(best, highest, out=best)
            torch.maximum(best_far, tile.most_away(highest, logs, largest), out=best_far)

    # Start with the last rows, which see most keys and take longest.
    parallel_tiles.run_tasks(scan_band, [(head, band) for band in reversed(range(len(bands))) for head in range(heads)])
    entropy = spread.sum(1) * math.log(2) / links.counted.sum().clamp(min=1)
    linkable.masked_fill_(linkable < attention_maps.TINY, torch.nan)
    return LayerScan(picture.exp2_(), most.exp2_(), slots.key(at), away.exp2_(), entropy, linkable)


class _Slots:
    """Slots for keys: every cell of `wide` keys is padded to whole groups with empty slots."""

    def __init__(self, m: int, wide: int) -> None:
        self.wide, self.cells = wide, -(-m // wide)
        self.parts = max(round(wide / GROUP), 1)
        self.group = -(-wide // self.parts)
        self.cell = self.parts * self.group
        self.step = max(TILE[1] // self.cell, 1) * self.cell

    def of(self, key: Tensor) -> Tensor:
        return key // self.wide * self.cell + key % self.wide

    def key(self, slot: Tensor) -> Tensor:
        return slot // self.cell * self.wide + slot % self.cell

    def spans(self, keys: int) -> list[slice]:
        """Return the slots of the first `keys` keys, in whole cells, a tile at a time."""
        end = -(-keys // self.wide) * self.cell
        return [slice(first, min(first + self.step, end)) for first in range(0, end, self.step)]

    def filled(self, k: Tensor) -> Tensor:
        """Return keys (G, M, D) in their slots, with the two more columns: (G, slots, D + 2)."""
        groups, m, width = k.shape
        filled = k.new_zeros(groups, self.cells * self.cell, width + 2)
        filled[..., width + 1] = HIDDEN
        there = self.of(torch.arange(m))
        filled[:, there] = F.pad(F.pad(k, (0, 1), value=1.0), (0, 1))
        return filled


class _Tile:
    """A tile of slots by rows, and which of its cells are hidden, for all heads."""

    def __init__(self, slots: _Slots, span: slice, rows: slice, links: LinkFilter, causal: bool) -> None:
        self.slots, self.span, self.first, self.group = slots, span, span.start, slots.group
        self.high, self.broad = span.stop - span.start, rows.stop - rows.start
        self.size = self.high * self.broad
        key, query = slots.key(torch.arange(span.start, span.stop)), torch.arange(rows.start, rows.stop)
        self.visible_to_all = int((key <= rows.start).sum()) if causal else self.high  # slots that all rows see
        self.future = torch.where(key[self.visible_to_all :, None] > query, HIDDEN, 0.0)
        self.special = (links.counted[rows] == 0).nonzero()[:, 0]
        excluded = slots.of(torch.tensor(links.excluded, dtype=torch.long)) - span.start
        self.excluded = excluded[(excluded >= 0) & (excluded < self.high)]
        nothing = torch.zeros(0, dtype=torch.long)
        self.own = self.near = nothing
        if links.is_self:
            self.own = self._flat(links.position[rows], links.position[rows] + 1)
            self.near = self._flat(links.neighbours_from[rows], links.neighbours_to[rows])
        self.excluded_groups = self._touched(torch.cat([self.excluded, self.own // self.broad]))
        self.near_groups = self._touched(self.near // self.broad)

    def _flat(self, low: Tensor, high: Tensor) -> Tensor:
        """Return the flat indices of each query's keys from `low` up to `high`."""
        flat = []
        for offset in range(int((high - low).max())):
            slot = self.slots.of(low + offset) - self.first
            inside = (low + offset < high) & (slot >= 0) & (slot < self.high)
            flat.append((slot * self.broad + torch.arange(self.broad))[inside])
        return torch.cat(flat)

    def _touched(self, slots: Tensor) -> slice:
        """Return the range of groups that contains these slots."""
        if not len(slots):
            return slice(0, 0)
        return slice(int(slots.min()) // self.group, int(slots.max()) // self.group + 1)

    def start(self, logs: Tensor) -> Tensor:
        """Hide the future; return the maximum of each group, (groups, R)."""
        if len(self.future):
            logs[self.visible_to_all :].add_(self.future)
        return logs.view(-1, self.group, self.broad).amax(1)

    def linkable(self, shares: Tensor) -> Tensor:
        """Return every query's weight on keys that aren't excluded, (R,)."""
        if not len(self.excluded):
            return shares.sum(0)
        saved = shares[self.excluded]
        # The total minus the excluded weights could be rounding alone.
        total = shares.index_fill_(0, self.excluded, 0.0).sum(0)
        shares[self.excluded] = saved
        return total

    def drop_special(self, logs: Tensor, shares: Tensor) -> None:
        """Hide special queries."""
        if len(self.special):
            logs.index_fill_(1, self.special, HIDDEN)
            shares.index_fill_(1, self.special, 0.0)

    def close(self, logs: Tensor, largest: Tensor) -> None:
        """Hide excluded keys, and each query's own."""
        if len(self.excluded):
            logs.index_fill_(0, self.excluded, HIDDEN)
        self._hide_flat(self.own, self.excluded_groups, logs, largest)

    def _hide_flat(self, flat: Tensor, touched: slice, logs: Tensor, largest: Tensor) -> None:
        if len(flat):
            logs.view(-1).index_fill_(0, flat, HIDDEN)
        if touched.start < touched.stop:
            slots = logs[touched.start * self.group : touched.stop * self.group]
            torch.amax(slots.view(-1, self.group, self.broad), 1, out=largest[touched])

    def most(self, logs: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
        """Return every query's largest log and its slot, (R,)."""
        top, group = largest.max(0)
        inside = logs.view(-1, self.group, self.broad).gather(0, group.expand(1, self.group, self.broad))[0]
        return top, self.first + group * self.group + inside.max(0).indices

    def most_away(self, top: Tensor, logs: Tensor, largest: Tensor) -> Tensor:
        """Return every query's largest log without neighbours; `top` is that with them."""
        if not len(self.near):
            return top
        self._hide_flat(self.near, self.near_groups, logs, largest)
        return largest.amax(0)
