"""One look at every head of a trace: a small picture, its strongest link, what kinds of looks it has, how telling it is.

A query's look is its largest weight (the first token, special ones and its own left out), and it is of one kind:

    repeat      at the same token earlier, or at what followed that
    far         at a token more than LOCAL away
    near        at one not so far away
    beside      at the token right before or after it
    cross       anywhere in the other text

A head's score of a kind is the sum of such looks over the number of queries, a layer's that of its best head. Layers that
look beside them are many and alike, so kinds take turns: each names the layer that is best at it among those left.

A head is as telling as its strongest link to anything but itself, its neighbours, the first token and special ones; in
cross-attention, where there are no such places, as its looks are sharp.

A mixer's map (retention, Mamba-2, the delta rule) is signed and its rows don't sum to 1. There a weight is looked at by its
size, a look is a share of the sizes of its row, the first token is like any other (there is no softmax that would give it
what is left over), a picture is relative to the head's largest weight, and a head is as telling as what its picture shows
away from the diagonal.

Everything is found in one pass over the weights, all heads of a layer at once (a mixer's one by one), in blocks that stay near the processor. A
row's largest weight is looked for among the largest of each WIDE columns, which stay true when a few columns are taken out.

H heads, N queries, M keys, R rows of a block, C columns of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..attention.formula import Call, reach
from ..mixers.calls import Mixing
from ..mixers.maps import Tile, head_of, joined
from . import maps
from .patterns import LOCAL, identities
from .ranking import strongest
from .tokens import Tokens

if TYPE_CHECKING:
    from .traces import Trace

BINS = 64  # cells along each side of a small picture, at most
PICTURES = 6_000_000  # bytes of all of them
BLOCK = 1 << 20  # scores of a block, where that holds a row of a picture's cells: 4 MB
LEAST = 1e-4  # a link is more than this, a mixer's as a share of its head's largest weight
WIDE = 64  # columns whose largest is kept: a multiple of any processor's vectors
KINDS = ("repeat", "far", "near", "beside", "cross")  # in the order of their turns
FAINT = 0.05  # a layer below this in a kind is not named for it

Progress = Callable[[int, int], None]  # heads done, of all
Link = tuple[int, int, float] | None  # from, to, weight
Place = tuple[str, int]  # part, layer


@dataclass(frozen=True)
class Look:
    """What one look at all of a head gives."""

    picture: np.ndarray  # √weight · 255, the largest weight of each cell; a mixer's 128 ± √(size/top) · 127
    link: Link  # the largest look
    looks: dict[str, float]  # kind → its share of all queries' looks
    telling: float
    top: float = 1.0  # the largest weight by size that a picture can show


@dataclass(frozen=True)
class Survey:
    """Every head of a part: `heads[item][at][head]`, `at` counting the layers that attend, whose numbers in the model are
    `layers`; a cell of a picture is `tall` queries by `wide` keys."""

    heads: list[list[list[Look]]]
    layers: tuple[int, ...]
    tall: int
    wide: int

    def most_telling(self, layers: Sequence[int], heads: Sequence[int], item: int = 0) -> tuple[int, int]:
        """The head to show first of these."""
        looks = dict(zip(self.layers, self.heads[item], strict=True))
        among = [(layer, head) for layer in layers for head in heads if head < len(looks[layer])]
        return strongest(among, lambda at: looks[at[0]][at[1]].telling)[0]


def survey(trace: Trace, part: str, progress: Progress | None = None) -> Survey:
    """Look at every head of a part once. (`Trace.survey` does, and remembers.)"""
    calls = trace.calls[part]
    items, n, m = calls[0].q.shape[0], calls[0].q.shape[2], calls[0].k.shape[2]
    bins = _bins(trace)
    tall, wide = -(-n // bins), -(-m // bins)
    done, every = 0, items * sum(call.n_head for call in calls)
    seen: list[list[list[Look]]] = []
    for item in range(items):
        told = _Told(trace, part, item)
        seen.append([])
        for call in map(plain, calls):
            looks = _mixer(call, item, told, tall) if part == "mixers" else _layer(call, item, told, tall, wide)
            seen[-1].append([])
            for some in looks:
                seen[-1][-1] += some
                done += len(some)
                if progress is not None:
                    progress(done, every)
    return Survey(seen, trace.layers(part), tall, wide)


def _bins(trace: Trace) -> int:
    """Cells along each side of a picture: fewer where there are very many heads."""
    pictures = sum(call.q.shape[0] * call.n_head for calls in trace.calls.values() for call in calls)
    return max(8, min(BINS, math.isqrt(PICTURES // max(pictures, 1))))


class _Told:
    """What links are told of: no special tokens, no token's own, and in self-attention not the first key, which takes what
    is left over; in cross-attention all but special ones."""

    def __init__(self, trace: Trace, part: str, item: int) -> None:
        queries, keys = (trace.tokens(part, item, keys=side) for side in (False, True))
        self.own = part != "cross"
        self.asking = 1 - torch.tensor(queries.special).float()  # (N,)
        first = [0] if part not in ("cross", "mixers") else []
        self.closed = sorted({*first, *(j for j, special in enumerate(keys.special) if special)})
        self.ids = identities(keys) if self.own else None
        # Where each query stands among the keys, and from where to where its neighbours are, by whole characters.
        self.place = (torch.arange(len(queries)) + len(keys) - len(queries)).clamp(min=0)  # (N,)
        before, after = _neighbours(keys)
        self.before, self.after = before[self.place], after[self.place]  # (N,)


def _neighbours(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """For every token, where the character before its own begins, and where the one after it ends.

    >>> before, after = _neighbours(Tokens(("<E6><88>", "<91>", "a", "b"), whole=(("我", 0, 2), ("a", 2, 3), ("b", 3, 4))))
    >>> before.tolist(), after.tolist()
    ([0, 0, 0, 2], [3, 3, 4, 4])
    """
    starts, ends = [first for _, first, _ in tokens.whole], [end for _, _, end in tokens.whole]
    sizes = torch.tensor(ends) - torch.tensor(starts)
    before = torch.tensor([starts[0], *starts[:-1]] if starts else [], dtype=torch.long)
    after = torch.tensor([*ends[1:], ends[-1]] if ends else [], dtype=torch.long)
    return before.repeat_interleave(sizes), after.repeat_interleave(sizes)


def _layer(call: Call, item: int, told: _Told, tall: int, wide: int) -> Iterator[list[Look]]:
    """All heads of a layer at once, a block of queries at a time."""
    heads, n = call.q.shape[1:3]
    m = call.k.shape[2]
    picture = torch.zeros(heads, -(-n // tall), -(-m // wide))
    looks = {kind: torch.zeros(heads) for kind in KINDS}
    best, asks, seen = torch.full((heads,), LEAST), *torch.zeros(2, heads, dtype=torch.long)  # the link of each head
    telling = torch.zeros(heads)
    step = max(1, BLOCK // max(heads * m, 1) // tall) * tall
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        cols = reach(call.mask, n, m, rows)
        if cols.start >= cols.stop:
            continue
        cols = slice(cols.start // wide * wide, cols.stop)  # whole cells
        shares = maps.shares(call, item, rows, cols)
        shown = maps.cells(maps.cells(shares, tall, 1, "max"), wide, 2, "max")
        at = start // tall, cols.start // wide
        picture[:, at[0] : at[0] + shown.shape[1], at[1] : at[1] + shown.shape[2]] = shown

        block = _Block(shares, cols.start)
        block.close(told.closed)
        if told.own:
            block.hide(told.place[rows], told.place[rows] + 1)
        share, key = block.largest()  # (H, R)
        share *= told.asking[rows]
        for kind, which in _kinds(told.place[rows] if told.own else None, key, told.ids).items():
            looks[kind] += (share * which).sum(-1)
        most, i = share.max(-1)  # (H,)
        stronger = most > best
        best = torch.where(stronger, most, best)
        asks = torch.where(stronger, start + i, asks)
        seen = torch.where(stronger, key.gather(1, i[:, None])[:, 0], seen)
        if told.own:
            block.hide(told.before[rows], told.after[rows])
            telling = torch.maximum(telling, (block.largest_share() * told.asking[rows]).amax(-1))
    small = (picture.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).numpy()
    made = []
    for h in range(heads):
        link = (int(asks[h]), int(seen[h]), round(float(best[h]), 6)) if best[h] > LEAST else None
        kinds = {kind: float(total[h]) / max(n, 1) for kind, total in looks.items()}
        made.append(Look(small[h], link, kinds, float(telling[h]) if told.own else kinds["cross"]))
    yield made


def _mixer(call: Mixing, item: int, told: _Told, cell: int) -> Iterator[list[Look]]:
    """The heads of a mixer, one after the other."""
    n = call.v.shape[2]
    for h in range(call.n_head):
        rows = _Rows(n, told)
        picture = joined(map(rows.look, head_of(call, item, h).tiles(cell)), n, cell, "max")
        top = float(picture.abs().max()) if n else 0.0
        shades = (picture.abs() / (top or 1.0)).sqrt() * picture.sign()
        small = (128 + 127 * shades).round().to(torch.uint8).numpy()
        kinds = dict.fromkeys(KINDS, 0.0)
        shares = rows.most / rows.total.clamp(min=1e-30) * told.asking
        for kind, which in _kinds(told.place, rows.key, told.ids).items():
            kinds[kind] = float((shares * which).sum()) / max(n, 1)
        most = rows.most * told.asking
        i = int(most.argmax()) if n else 0
        link = (i, int(rows.key[i]), float(f"{rows.weight[i]:.6g}")) if n and most[i] > LEAST * top else None
        far = picture.abs().tril(-2).sum() / picture.abs().sum().clamp(min=1e-30)
        yield [Look(small, link, kinds, float(far), float(f"{top:.6g}"))]


class _Rows:
    """Of every row of a mixer's map: the largest weight by size that links are told of, its key, and all sizes together."""

    def __init__(self, n: int, told: _Told) -> None:
        self.closed = torch.tensor(told.closed, dtype=torch.long)
        self.most, self.weight, self.total = torch.zeros(3, n)
        self.key = torch.zeros(n, dtype=torch.long)

    def look(self, tile: Tile) -> Tile:
        """Take in a rectangle of it, and hand it on."""
        rows, cols, table = tile
        sizes = table.abs()
        self.total[rows] += sizes.sum(1)
        if cols.stop > rows.start:  # its own
            sizes.diagonal(rows.start - cols.start).zero_()
        sizes[:, self.closed[(self.closed >= cols.start) & (self.closed < cols.stop)] - cols.start] = 0
        most, at = sizes.max(1)
        larger = most > self.most[rows]
        weight = table.gather(1, at[:, None])[:, 0]
        for kept, new in ((self.most, most), (self.weight, weight), (self.key, at + cols.start)):
            kept[rows] = torch.where(larger, new, kept[rows])
        return tile


class _Block:
    """The weights of some rows, of all heads, (H, R, C), and the largest of each WIDE columns, (H, R, cells), which stay
    true when columns are taken out."""

    def __init__(self, shares: Tensor, begin: int) -> None:
        self.shares, self.begin = shares, begin
        self.wide = min(WIDE, shares.shape[2])
        self.cells = maps.cells(shares, self.wide, 2, "max")

    def close(self, keys: Sequence[int]) -> None:
        """Take keys out for every row."""
        inside = [j - self.begin for j in keys if 0 <= j - self.begin < self.shares.shape[2]]
        self.shares[..., inside] = 0
        for cell in {j // self.wide for j in inside}:
            self._again(cell, cell + 1)

    def hide(self, low: Tensor, high: Tensor) -> None:
        """Take out, for each row, the keys from its `low` up to its `high` (R,)."""
        size = self.shares.shape[2]
        first, last = (min(max(int(edge) - self.begin, 0), size) for edge in (low.min(), high.max()))
        if first >= last:
            return
        keys = torch.arange(first, last) + self.begin
        self.shares[..., first:last].masked_fill_((keys >= low[:, None]) & (keys < high[:, None]), 0.0)
        self._again(first // self.wide, -(-last // self.wide))

    def _again(self, first: int, last: int) -> None:
        columns = self.shares[..., first * self.wide : last * self.wide]
        self.cells[..., first:last] = maps.cells(columns, self.wide, 2, "max")

    def largest_share(self) -> Tensor:
        """The largest weight of each row, (H, R)."""
        return self.cells.amax(-1)

    def largest(self) -> tuple[Tensor, Tensor]:
        """The same, and the key that has it."""
        most, cell = self.cells.max(-1)
        columns = cell[..., None] * self.wide + torch.arange(self.wide)
        columns.clamp_(max=self.shares.shape[2] - 1)
        key = columns.gather(2, self.shares.gather(2, columns).argmax(-1, keepdim=True))[..., 0]
        return most, self.begin + key


def _kinds(place: Tensor | None, key: Tensor, ids: Tensor | None) -> dict[str, Tensor]:
    """Of which kind each query's look is, from where it stands among the keys and the key it looks at: kind → (R,).

    >>> found = _kinds(torch.tensor([5, 5, 5, 5]), torch.tensor([4, 2, 1, 0]), torch.tensor([8, 7, 3, 4, 5, 8]))
    >>> {kind: which.tolist() for kind, which in found.items() if which.any()}
    {'repeat': [False, False, True, True], 'near': [False, True, False, False], 'beside': [True, False, False, False]}
    """
    if place is None:
        return {"cross": torch.ones_like(key, dtype=torch.bool)}
    distance = (place - key).abs()
    repeat = torch.zeros_like(key, dtype=torch.bool)
    if ids is not None:
        mine = ids[place.clamp(min=0)]
        repeat = (key < place) & ((ids[key] == mine) | (ids[(key - 1).clamp(min=0)] == mine))
    beside = (distance <= 1) & ~repeat
    near = (distance <= LOCAL) & ~beside & ~repeat
    return {"repeat": repeat, "far": ~(near | beside | repeat), "near": near, "beside": beside}


def in_turn(looks: Mapping[Place, Mapping[str, float]]) -> list[Place]:
    """All layers, kinds taking turns: each names the best that is left, until none of them is better than faint.

    >>> previous = {"beside": 0.9}
    >>> in_turn({("decoder", 0): previous, ("decoder", 1): {"beside": 0.8}, ("decoder", 2): {"far": 0.3}})
    [('decoder', 2), ('decoder', 0), ('decoder', 1)]
    """
    left = dict(looks)
    order: list[Place] = []
    while left:
        before = len(order)
        for kind in KINDS:
            best = max(left, key=lambda place: left[place].get(kind, 0.0), default=None)
            if best is not None and left[best].get(kind, 0.0) >= FAINT:
                order.append(best)
                del left[best]
        if len(order) == before:
            return order + sorted(left, key=lambda place: -sum(left[place].values()))
    return order


def plain(call: Any) -> Any:
    """The same call in float32 on the CPU, apart from any gradient."""
    return call.mapped(lambda tensor: tensor.detach().float().cpu())
