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

Everything is found in one pass over the weights (layer_scan.py), a mixer's heads one by one. A layer can be looked at as soon as
it is known (streaming.py), before the others are:

    surveyor = Surveyor(heads, queries, keys)       what `follow` tells
    surveyor.look(part, call)                       every head of a layer

H heads, N queries, M keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...attention.formula import Call
from ...mixers.calls import Mixing
from ...mixers.mixer_maps import Tile, head_of, pool_tiles
from ..views.head_ranking import strongest
from ..views.layer_scan import LinkFilter, scan_layer
from .patterns import LOCAL

if TYPE_CHECKING:
    from ..record.streaming import Heads, Sides
    from ..views.traces import Trace

BINS = 64  # cells along each side of a small picture, at most
PICTURES = 6_000_000  # bytes of all of them
LEAST = 1e-4  # a link is more than this, a mixer's as a share of its head's largest weight
KINDS = ("repeat", "far", "near", "beside", "cross")  # in the order of their turns
FAINT = 0.05  # a layer below this in a kind is not named for it

Progress = Callable[[int, int], None]  # heads done, of all
Link = tuple[int, int, float] | None  # from, to, weight
Layer = tuple[str, int]  # part, layer


@dataclass(frozen=True)
class Look:
    """What one look at all of a head gives."""

    picture: np.ndarray  # √weight · 255, the largest weight of each cell; a mixer's 128 ± √(size/top) · 127
    link: Link  # the largest look
    looks: dict[str, float]  # kind → its share of all queries' looks
    telling: float
    top: float = 1.0  # the largest weight by size that a picture can show
    # Of a query's weights in nats, the mean over those that aren't special; a mixer's by their sizes.
    entropy: float = 0.0
    left: Tensor | None = (
        None  # (N,) what each query gives to keys that links are told of, where that was seen; else NaN
    )


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


class Surveyor:
    """Looks at the layers of a model, each as soon as it is known, with what `follow` tells beforehand: how many heads each
    layer of each part has, and the tokens on both sides.

    >>> from ...model import Config, Transformer
    >>> from ..record.streaming import stream_trace
    >>> model, looks = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)).eval(), []
    >>> _ = stream_trace(
    ...     model, list(range(20)),
    ...     on_start=lambda *what: looks.append(Surveyor(*what)),
    ...     on_layer=lambda part, layer, call: looks.append(looks[0].look(part, call)),
    ... )
    >>> surveyor, first, second = looks
    >>> len(first), first[3].picture.shape, surveyor.cells("decoder")
    (4, (20, 20), (1, 1, 20, 20))
    """

    def __init__(self, heads: Heads, queries: Sides, keys: Sides) -> None:
        self.queries, self.keys = queries, keys
        # Fewer cells along each side of a picture where there are very many heads.
        pictures = sum(len(queries[part]) * sum(layers.values()) for part, layers in heads.items())
        self.bins = max(8, min(BINS, math.isqrt(PICTURES // max(pictures, 1))))
        self._links: dict[tuple[str, int], LinkFilter] = {}

    def cells(self, part: str) -> tuple[int, int, int, int]:
        """A cell of a part's pictures is so many queries by so many keys, a picture so many rows by so many columns."""
        n, m = len(self.queries[part][0]), len(self.keys[part][0])
        tall, wide = -(-n // self.bins), -(-m // self.bins)
        return tall, wide, -(-n // tall), -(-m // wide)

    def look(self, part: str, call: Call | Mixing, item: int = 0) -> list[Look]:
        """Every head of a layer."""
        return [look for heads in self.looks(part, call, item) for look in heads]

    def looks(self, part: str, call: Call | Mixing, item: int = 0) -> Iterator[list[Look]]:
        """The same, some heads at a time."""
        if (part, item) not in self._links:
            self._links[part, item] = LinkFilter(part, self.queries[part][item], self.keys[part][item])
        links, (tall, wide, _, _) = self._links[part, item], self.cells(part)
        call = plain(call.only(items=[item]))
        return _mixer(call, links, tall) if isinstance(call, Mixing) else _layer(call, links, tall, wide)


def survey(trace: Trace, part: str, progress: Progress | None = None) -> Survey:
    """Look at every head of a part once. (`Trace.survey` does, and remembers.)"""
    heads = {part: {i: call.n_head for i, call in enumerate(calls)} for part, calls in trace.calls.items()}
    surveyor = Surveyor(heads, trace.queries, trace.keys)
    items = len(trace.queries[part])
    done, every = 0, items * sum(heads[part].values())
    surveyed: list[list[list[Look]]] = []
    for item in range(items):
        surveyed.append([])
        for call in trace.calls[part]:
            surveyed[-1].append([])
            for looks in surveyor.looks(part, call, item):
                surveyed[-1][-1] += looks
                done += len(looks)
                if progress is not None:
                    progress(done, every)
    return Survey(surveyed, trace.layers(part), *surveyor.cells(part)[:2])


def _layer(call: Call, links: LinkFilter, tall: int, wide: int) -> Iterator[list[Look]]:
    """All heads of a layer at once."""
    n = call.q.shape[2]
    scan = scan_layer(call, links, tall, wide)
    small = (scan.picture.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).numpy()
    share = scan.largest * links.counted  # (H, N)
    kinds = _kinds(links.position if links.is_self else None, scan.key, links.ids)
    looks = {kind: ((share * which).sum(-1) / max(n, 1)).tolist() for kind, which in kinds.items()}
    telling = (scan.largest_far * links.counted).amax(-1).tolist() if links.is_self else looks["cross"]
    best, query = share.max(-1)
    keys = scan.key.gather(1, query[:, None])[:, 0]
    summaries = []
    pairs = zip(query.tolist(), keys.tolist(), best.tolist(), strict=True)
    for h, (i, j, weight) in enumerate(pairs):
        link = (i, j, round(weight, 6)) if weight > LEAST else None
        shares = {kind: looks[kind][h] if kind in looks else 0.0 for kind in KINDS}
        linkable = None if scan.linkable is None else scan.linkable[h]
        summaries.append(Look(small[h], link, shares, telling[h], entropy=float(scan.entropy[h]), left=linkable))
    yield summaries


def _mixer(call: Mixing, links: LinkFilter, cell: int) -> Iterator[list[Look]]:
    """The heads of a mixer, one after the other."""
    n = call.v.shape[2]
    for h in range(call.n_head):
        rows = _Rows(n, links)
        picture = pool_tiles(map(rows.look, head_of(call, 0, h).tiles(cell)), n, cell, "max")
        top = float(picture.abs().max()) if n else 0.0
        shades = (picture.abs() / (top or 1.0)).sqrt() * picture.sign()
        small = (128 + 127 * shades).round().to(torch.uint8).numpy()
        kinds = dict.fromkeys(KINDS, 0.0)
        shares = rows.most / rows.total.clamp(min=1e-30) * links.counted
        for kind, which in _kinds(links.position, rows.key, links.ids).items():
            kinds[kind] = float((shares * which).sum()) / max(n, 1)
        most = rows.most * links.counted
        i = int(most.argmax()) if n else 0
        link = (i, int(rows.key[i]), float(f"{rows.weight[i]:.6g}")) if n and most[i] > LEAST * top else None
        far = picture.abs().tril(-2).sum() / picture.abs().sum().clamp(min=1e-30)
        yield [Look(small, link, kinds, float(far), float(f"{top:.6g}"), rows.entropy(links))]


class _Rows:
    """Of every row of a mixer's map: the largest weight by size that links are told of, its key, and all sizes together."""

    def __init__(self, n: int, links: LinkFilter) -> None:
        self.excluded = torch.tensor(links.excluded, dtype=torch.long)
        self.most, self.weight, self.total, self.spread = torch.zeros(4, n)
        self.key = torch.zeros(n, dtype=torch.long)

    def look(self, tile: Tile) -> Tile:
        """Take in a rectangle of it, and hand it on."""
        rows, cols, table = tile
        sizes = table.abs()
        self.total[rows] += sizes.sum(1)
        self.spread[rows] -= torch.xlogy(sizes, sizes).sum(1)
        if cols.stop > rows.start:  # its own
            sizes.diagonal(rows.start - cols.start).zero_()
        sizes[:, self.excluded[(self.excluded >= cols.start) & (self.excluded < cols.stop)] - cols.start] = 0
        most, at = sizes.max(1)
        larger = most > self.most[rows]
        weight = table.gather(1, at[:, None])[:, 0]
        for array, new in ((self.most, most), (self.weight, weight), (self.key, at + cols.start)):
            array[rows] = torch.where(larger, new, array[rows])
        return tile

    def entropy(self, links: LinkFilter) -> float:
        """−Σ p·log p of sizes that are shares p of their row's, the mean over queries that aren't special."""
        total = self.total.clamp(min=1e-30)
        rows = self.spread / total + total.log()
        return float((rows * links.counted).sum() / links.counted.sum().clamp(min=1))


def _kinds(position: Tensor | None, key: Tensor, ids: Tensor | None) -> dict[str, Tensor]:
    """Of which kind each query's look is, from where it stands among the keys and the key it looks at: kind → (R,).

    >>> kinds = _kinds(torch.tensor([5, 5, 5, 5]), torch.tensor([4, 2, 1, 0]), torch.tensor([8, 7, 3, 4, 5, 8]))
    >>> {kind: which.tolist() for kind, which in kinds.items() if which.any()}
    {'repeat': [False, False, True, True], 'near': [False, True, False, False], 'beside': [True, False, False, False]}
    """
    if position is None:
        return {"cross": torch.ones_like(key, dtype=torch.bool)}
    distance = (position - key).abs()
    repeat = torch.zeros_like(key, dtype=torch.bool)
    if ids is not None:
        own = ids[position.clamp(min=0)]
        repeat = (key < position) & ((ids[key] == own) | (ids[(key - 1).clamp(min=0)] == own))
    beside = (distance <= 1) & ~repeat
    near = (distance <= LOCAL) & ~beside & ~repeat
    return {"repeat": repeat, "far": ~(near | beside | repeat), "near": near, "beside": beside}


def in_turn(looks: Mapping[Layer, Mapping[str, float]]) -> list[Layer]:
    """All layers, kinds taking turns: each names the best that is left, until none of them is better than faint.

    >>> previous = {"beside": 0.9}
    >>> in_turn({("decoder", 0): previous, ("decoder", 1): {"beside": 0.8}, ("decoder", 2): {"far": 0.3}})
    [('decoder', 2), ('decoder', 0), ('decoder', 1)]
    """
    remaining = dict(looks)
    order: list[Layer] = []
    while remaining:
        before = len(order)
        for kind in KINDS:
            best = max(remaining, key=lambda layer: remaining[layer].get(kind, 0.0), default=None)
            if best is not None and remaining[best].get(kind, 0.0) >= FAINT:
                order.append(best)
                del remaining[best]
        if len(order) == before:
            return order + sorted(remaining, key=lambda layer: -sum(remaining[layer].values()))
    return order


def plain(call: Any) -> Any:
    """The same call in float32 on the CPU, apart from any gradient."""
    return call.mapped(lambda tensor: tensor.detach().float().cpu())
