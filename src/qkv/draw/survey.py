"""One look at every head of a trace: a small picture, its strongest link, what kinds of looks it has; and by that, which
layers a page carries whole where not all fit.

A query's look is its largest weight (the first token, special ones and its own left out), and it is of one kind:

    repeat      at the same token earlier, or at what followed that
    far         at a token more than LOCAL away
    near        at one not so far away
    beside      at the token right before or after it
    cross       anywhere in the other text

A head's score of a kind is the sum of such looks over the number of queries, a layer's that of its best head. Layers that
look beside them are many and alike, so kinds take turns: each names the layer that is best at it among those left.

N queries, M keys, R rows of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..attention.attend import Call
from ..tracing.maps import Head, _cells, head_of
from ..tracing.patterns import LOCAL, _identities
from ..tracing.trace import Trace

KINDS = ("repeat", "far", "near", "beside", "cross")  # in the order of their turns
FAINT = 0.05  # a layer below this in a kind is not named for it
LINKED = 0.1  # a head that gives a word this much links the two words asked for

Link = tuple[int, int, float] | None  # from, to, weight
Place = tuple[str, int]  # part, layer


@dataclass(frozen=True)
class Survey:
    """What one look at all of a head gives."""

    picture: np.ndarray  # √weight · 255, the largest weight of each cell
    link: Link  # the largest look
    looks: dict[str, float]  # kind → its share of all queries' looks


def look(trace: Trace, part: str, bins: int, tick: Callable[[], None]) -> list[list[list[Survey]]]:
    """Every head of a part looked at once: item → layer → head."""
    seen: list[list[list[Survey]]] = []
    for item in range(trace.calls[part][0].q.shape[0]):
        seen.append([])
        told = _told(trace, part, item)
        ids = None if part == "cross" else _identities(trace.tokens(part, item, keys=True))
        for call in map(plain, trace.calls[part]):
            seen[-1].append([])
            for head in range(call.q.shape[1]):
                seen[-1][-1].append(survey(head_of(call, item, head), bins, told, part != "cross", ids))
                tick()
    return seen


def survey(head: Head, bins: int, open_: tuple[Tensor, Tensor], own: bool, ids: Tensor | None = None) -> Survey:
    """One pass over all weights, block by block. `open_`: 1 for queries and keys that links are told of, else 0; `own`:
    the two texts are one; `ids`: its tokens by number (M,)."""
    n, m = head.n, head.m
    tall, wide = -(-n // bins), -(-m // bins)
    picture = torch.zeros(-(-n // tall), -(-m // wide))
    step = max(1, (1 << 20) // max(m, 1) // tall) * tall  # blocks that fit a processor's cache
    link: Link = None
    looks = dict.fromkeys(KINDS, 0.0)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        cols = head.reach(rows) or slice(0, m)
        if cols.start >= cols.stop:
            continue
        begin = cols.start // wide * wide
        shares = head._share(head.scores(rows, slice(begin, cols.stop)))
        cells = _cells(_cells(shares, wide, 1, "max"), tall, 0, "max")
        at = start // tall, begin // wide
        picture[at[0] : at[0] + cells.shape[0], at[1] : at[1] + cells.shape[1]] = cells
        shares *= open_[1][begin : cols.stop]
        offset = start + m - n - begin
        if own and -shares.shape[0] < offset < shares.shape[1]:
            shares.diagonal(offset).zero_()
        most, where = shares.max(1)
        most *= open_[0][rows]
        place = torch.arange(rows.start, rows.stop) + m - n if own else None
        for kind, which in _kinds(place, begin + where, ids).items():
            looks[kind] += float(most[which].sum())
        i = int(most.argmax())
        if float(most[i]) > (link[2] if link else 1e-4):
            link = start + i, begin + int(where[i]), round(float(most[i]), 5)
    small = (picture.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).numpy()
    return Survey(small, link, {kind: total / max(n, 1) for kind, total in looks.items()})


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


def _told(trace: Trace, part: str, item: int) -> tuple[Tensor, Tensor]:
    """0 for special tokens and, among the keys of self-attention, the first one, which takes what is left over."""
    asking, asked = (1 - torch.tensor(trace.tokens(part, item, keys=keys).special).float() for keys in (False, True))
    if part != "cross":
        asked[:1] = 0
    return asking, asked


def plain(call: Call) -> Call:
    """The same call in float32 on the CPU, apart from any gradient."""

    def rid(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.detach().float().cpu()

    q, k, v = (tensor.detach().float().cpu() for tensor in (call.q, call.k, call.v))
    return replace(call, q=q, k=k, v=v, bias=rid(call.bias), sinks=rid(call.sinks))
