"""Summarize every head of a trace: a small picture, its strongest link, its kinds of looks, and how telling it is.

A query's look is its largest weight (without those on the first token, special ones and itself), and it is of one kind:

    repeat      at the same token earlier, or at what followed that
    far         at a token more than LOCAL away
    near        at one not so far away
    beside      at the token right before or after it
    cross       anywhere in the other text

A head's score for a kind is the sum of such looks over the number of queries, a layer's that of its best head. Most layers
look beside, so to show different ones kinds take turns: each selects its best layer among the remaining ones.

How telling a head is: its largest weight on anything but itself, its neighbours, the first token and special ones; in
cross-attention, the sum of its looks over the number of queries.

A mixer's map (retention, Mamba-2, the delta rule) is signed and its rows don't sum to 1. There looks are absolute weights as
shares of their row, the first token is like any other (there is no softmax and so no sink), a picture is relative to the
head's largest weight, and a head is as telling as its picture is large away from the diagonal.

A single pass over the weights computes everything (layer_scan.py). With streaming.py a layer can be summarized before the
next one runs:

    surveyor = Surveyor(heads, queries, keys)       the arguments of `on_start`
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

BINS = 64  # the most cells along each side of a picture
PICTURES = 6_000_000  # bytes of all pictures
LEAST = 1e-4  # a link's weight is more than this, a mixer's as a share of its head's largest weight
KINDS = ("repeat", "far", "near", "beside", "cross")  # in the order of their turns
FAINT = 0.05  # the least score with which a kind selects a layer

Progress = Callable[[int, int], None]  # heads done, of all
Link = tuple[int, int, float] | None  # from, to, weight
Layer = tuple[str, int]  # part, layer


@dataclass(frozen=True)
class Look:
    """The summary of a head."""

    picture: np.ndarray  # √weight · 255 of each cell's maximum; a mixer's 128 ± √(|weight|/top) · 127
    link: Link  # the largest look
    looks: dict[str, float]  # kind → the sum of its looks over the number of queries
    telling: float
    top: float = 1.0  # a mixer's largest absolute weight
    # In nats, the mean over queries that aren't special; a mixer's of absolute weights.
    entropy: float = 0.0
    left: Tensor | None = None  # (N,) each query's weight on linkable keys, NaN if unknown


@dataclass(frozen=True)
class Survey:
    """Every head of a part: `heads[item][i][head]`, where `layers[i]` is the layer's number in the model; a cell of a picture
    is `tall` queries by `wide` keys."""

    heads: list[list[list[Look]]]
    layers: tuple[int, ...]
    tall: int
    wide: int

    def most_telling(self, layers: Sequence[int], heads: Sequence[int], item: int = 0) -> tuple[int, int]:
        """Return the most telling (layer, head) among these."""
        looks = dict(zip(self.layers, self.heads[item], strict=True))
        among = [(layer, head) for layer in layers for head in heads if head < len(looks[layer])]
        return strongest(among, lambda at: looks[at[0]][at[1]].telling)[0]


class Surveyor:
    """Summarizes layers one at a time, given the number of heads of each layer by part and the tokens on both sides.

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
        # Smaller pictures if there are very many heads.
        pictures = sum(len(queries[part]) * sum(layers.values()) for part, layers in heads.items())
        self.bins = max(8, min(BINS, math.isqrt(PICTURES // max(pictures, 1))))
        self._links: dict[tuple[str, int], LinkFilter] = {}

    def cells(self, part: str) -> tuple[int, int, int, int]:
        """Return the queries and keys of a cell, and the rows and columns of a picture."""
        n, m = len(self.queries[part][0]), len(self.keys[part][0])
        tall, wide = -(-n // self.bins), -(-m // self.bins)
        return tall, wide, -(-n // tall), -(-m // wide)

    def look(self, part: str, call: Call | Mixing, item: int = 0) -> list[Look]:
        """Summarize every head of a layer."""
        return [look for heads in self.looks(part, call, item) for look in heads]

    def looks(self, part: str, call: Call | Mixing, item: int = 0) -> Iterator[list[Look]]:
        """Yield the summaries of a layer, some heads at a time."""
        if (part, item) not in self._links:
            self._links[part, item] = LinkFilter(part, self.queries[part][item], self.keys[part][item])
        links, (tall, wide, _, _) = self._links[part, item], self.cells(part)
        call = plain(call.only(items=[item]))
        return _mixer(call, links, tall) if isinstance(call, Mixing) else _layer(call, links, tall, wide)


def survey(trace: Trace, part: str, progress: Progress | None = None) -> Survey:
    """Summarize every head of a part; `Trace.survey` caches the result."""
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
    """Summarize all heads of an attention layer."""
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
    """Summarize the heads of a mixer one by one."""
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
    """For every row of a mixer's map: the largest absolute weight on a linkable key, that key, and the sum of all."""

    def __init__(self, n: int, links: LinkFilter) -> None:
        self.excluded = torch.tensor(links.excluded, dtype=torch.long)
        self.most, self.weight, self.total, self.spread = torch.zeros(4, n)
        self.key = torch.zeros(n, dtype=torch.long)

    def look(self, tile: Tile) -> Tile:
        """Update with a tile of the map, and return it."""
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
        """Return −Σ p·log p of absolute weights as shares p of their row, the mean over queries that aren't special."""
        total = self.total.clamp(min=1e-30)
        rows = self.spread / total + total.log()
        return float((rows * links.counted).sum() / links.counted.sum().clamp(min=1))


def _kinds(position: Tensor | None, key: Tensor, ids: Tensor | None) -> dict[str, Tensor]:
    """Return which queries' looks are of each kind, from the queries' positions and the keys: kind → (R,).

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
    """Order layers by kinds taking turns: each selects the best remaining one, until all are below FAINT.

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
    """Return the call in float32 on the CPU, without gradients."""
    return call.mapped(lambda tensor: tensor.detach().float().cpu())
