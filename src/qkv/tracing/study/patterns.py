"""Score every head of a trace for known kinds of heads, with a baseline for each score.

A kind credits a set of keys for each query ("the key right before it"). Its score is the mean weight on credited keys over
the queries that have a choice: that may see a credited key and another one. The baseline is the score of a head with equal
weights on all visible keys; the lift is how far the head goes from there to 1. `docs/patterns.md` has every kind's formula,
and what a score does not mean.

H heads, H' heads with different masks (1 if all share one), N queries, M keys, R rows of a block.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ...attention.dispatch import Call
from ...attention.mask_algebra import Full
from ...mixers.calls import Mixing
from ..views import attention_maps
from ..views.attention_maps import weights
from ..views.token_labels import Tokens
from ..views.traces import Trace
from .pattern_table import (  # noqa: F401 (the names of kinds are documented here)
    CALLED,
    CLEAR,
    EVEN,
    KINDS,
    MARGIN,
    MIN_QUERIES,
    OF_CROSS,
    OF_SELF,
    PLAIN,
    RARE,
    WIDE,
    HeadRow,
    Patterns,
    Score,
)

LOCAL = 3  # the largest distance of a near key
COLUMNS = 3  # the number of keys of the kind "a few keys for all"
BAND = 0.1  # half the width of the diagonal, as a share of the keys
PART = 0.2  # the least lift of a kind that a mixed head is part of


@torch.no_grad()
def patterns(trace: Trace, *, part: str | None = None, batch: int = 0) -> Patterns:
    """Score every head of a part of a trace for every kind, from exact weights.

    >>> from ...model.config import Config
    >>> from ...model.transformer import Transformer
    >>> from ..record.recorder import trace
    >>> _ = torch.manual_seed(0)
    >>> table = patterns(trace(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)), [3, 1, 4, 1, 5, 9, 2, 6]))
    >>> table.array("previous").shape, table.best("previous", 1)[0].scores["previous"].count
    ((2, 4), 7)
    """
    keys = trace.tokens(part, batch, keys=True)  # refuses a part or an item that isn't there
    part = trace.parts[0] if part is None else part
    queries = trace.tokens(part, batch)
    real_queries, real_keys = _real(trace, part, batch)
    credited: dict[torch.device, _CreditedKeys] = {}  # the layers of a large model may lie on several
    rows = []
    for layer, call in zip(trace.layers(part), trace.calls[part], strict=True):
        assert isinstance(call, Call)  # a mixer's rows are no shares
        device = call.q.device
        if device not in credited:
            credited[device] = _CreditedKeys(
                queries, keys, real_queries.to(device), real_keys.to(device), cross=part == "cross"
            )
        rows += _layer(layer, call, batch, credited[device])
    return Patterns(rows, part, keys, trace.model, int((~real_keys).sum()))


class _CreditedKeys:
    """The keys that every kind credits, as columns for all rows, or as pairs of a block of rows."""

    def __init__(self, queries: Tokens, keys: Tokens, real_queries: Tensor, real_keys: Tensor, *, cross: bool) -> None:
        self.n, self.m, self.cross = len(queries), len(keys), cross
        self.real_queries, self.real_keys = real_queries, real_keys  # which are not padding: (N,), (M,)
        self.device = real_keys.device
        self.named = OF_CROSS if cross else OF_SELF
        self.kinds = [k for k in self.named if k not in ("columns", "monotone", "uniform")]
        self.ids = identities(keys).to(self.device)
        first = int(real_keys.int().argmax()) if len(real_keys) else 0
        delimiters = [j for j in _delimiters(keys) if j != first and bool(real_keys[j])]
        self.columns = {"first": [first], "punctuation": delimiters}
        self._marks = torch.zeros(self.m, 2, device=self.device)
        for at, columns in enumerate(self.columns.values()):
            self._marks[columns, at] = 1
        # Results that all layers share are cached if they are small enough.
        self._keeps = self.n * self.m <= attention_maps.BLOCK
        self._pairs: dict[int, dict[str, tuple[Tensor, Tensor]]] = {}
        self._even: dict[int, tuple[Tensor, dict[str, Tensor]]] = {}

    def positions(self, rows: slice) -> Tensor:
        """Return the positions of these queries among the keys (self-attention, lower-right)."""
        return torch.arange(rows.start, rows.stop, device=self.device) + self.m - self.n

    def distance(self, rows: slice) -> Tensor:
        """Return |query − key|, (R, M)."""
        return (self.positions(rows)[:, None] - torch.arange(self.m, device=self.device)).abs()

    def pairs(self, rows: slice) -> dict[str, tuple[Tensor, Tensor]]:
        """Return (row of the block, key) of every credited pair, by kind; the same for every layer."""
        pairs = self._pairs.get(rows.start) or self._find_pairs(rows)
        if self._keeps:
            self._pairs[rows.start] = pairs
        return pairs

    def even(self, rows: slice, allowed: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return the number of visible credited keys of each row, by kind, and of all visible keys as "size": (H', R).

        The last result is cached, since most layers share one mask.
        """
        cached = self._even.get(rows.start)
        if cached is None or not torch.equal(cached[0], allowed):
            table = allowed.to(dtype)
            cached = allowed, self.tally(table, rows) | {"size": table.sum(-1)}
            if self._keeps:
                self._even[rows.start] = cached
        return cached[1]

    def _find_pairs(self, rows: slice) -> dict[str, tuple[Tensor, Tensor]]:
        if self.cross:
            return {"diagonal": _pair_indices(self._diagonal(rows))}
        positions, keys = self.positions(rows)[:, None], torch.arange(self.m, device=self.device)
        is_same = (self.ids[positions.clamp(min=0)[:, 0]][:, None] == self.ids) & (keys < positions)
        follows_same = torch.zeros_like(is_same)
        follows_same[:, 1:] = is_same[:, :-1]
        masks = {"previous": positions - 1 == keys, "next": positions + 1 == keys, "self": positions == keys}
        masks |= {
            "local": (positions - keys).abs() <= LOCAL,
            "duplicate": is_same,
            "induction": follows_same & (keys < positions),
        }
        return {kind: _pair_indices(which) for kind, which in masks.items()}

    def _diagonal(self, rows: slice) -> Tensor:
        """Return the keys at the query's relative position in their text, give or take BAND: bool (R, M)."""
        n_keys, n_queries = int(self.real_keys.sum()), int(self.real_queries.sum())
        # |i·(M − 1)/(N − 1) − j| ≤ width, in whole numbers: not every device has float64.
        along_keys = (self.real_keys.cumsum(0) - 1) * max(n_queries - 1, 1)
        along_queries = (self.real_queries.cumsum(0) - 1)[rows] * (n_keys - 1)
        wide = math.floor((max(1.0, BAND * n_keys) + 1e-9) * max(n_queries - 1, 1))
        return ((along_queries[:, None] - along_keys).abs() <= wide) & self.real_keys & (n_queries > 1)

    def tally(self, table: Tensor, rows: slice) -> dict[str, Tensor]:
        """Sum a table (H, R, M) over the credited keys of each row: kind → (H, R)."""
        sums = dict(zip(self.columns, (table @ self._marks.to(table.dtype)).unbind(-1), strict=True))
        for kind, (row, key) in self.pairs(rows).items():
            sums[kind] = table.new_zeros(table.shape[:2]).index_add_(1, row, table[:, row, key])
        return sums


def _pair_indices(which: Tensor) -> tuple[Tensor, Tensor]:
    row, key = which.nonzero(as_tuple=True)
    return row, key


class _Path:
    """The best monotone alignment, row by row: max over a₁ ≤ a₂ ≤ … of Σ w[i, aᵢ]."""

    def __init__(self) -> None:
        self.best: Tensor | None = None  # (H, M): of paths that end at each key
        self.count = 0

    def grow(self, table: Tensor, counts: Tensor) -> None:
        for i in counts.nonzero()[:, 0].tolist():
            so_far = 0 if self.best is None else self.best.cummax(-1).values
            self.best = table[:, i] + so_far
            self.count += 1

    def value(self, head: int) -> float:
        """Return the mean weight along the alignment."""
        return math.nan if self.best is None else float(self.best[min(head, len(self.best) - 1)].max()) / self.count


def _layer(layer: int, call: Call, item: int, credited: _CreditedKeys) -> list[HeadRow]:
    """Score all heads of a layer, a block of queries at a time."""
    heads = call.q.shape[1]
    tables: dict[str, list[Tensor]] = {}
    columns = even_columns = torch.zeros((), device=credited.device)
    path, even_path = _Path(), _Path()
    for rows in _blocks(heads, credited.n, credited.m):
        shares, allowed, entropy = weights(call, item, rows)  # (H, R, M), (H', R, M), (H, R)
        available = credited.even(rows, allowed, shares.dtype)
        counts = (available["size"] >= 2) & credited.real_queries[rows]  # (H', R)
        block = credited.tally(shares, rows) | {f"may {kind}": available[kind] for kind in credited.kinds}
        block |= {"size": available["size"], "counts": counts, "total": shares.sum(-1), "entropy": entropy}
        even = counts.to(shares.dtype) / available["size"].clamp(min=1)
        columns = columns + (counts.to(shares.dtype)[:, None] @ shares)[:, 0]  # (H, M)
        even_columns = even_columns + (even[:, None] @ allowed.to(shares.dtype))[:, 0]
        if credited.cross:
            path.grow(shares, counts.all(0))
            even_path.grow(allowed * even[..., None], counts.all(0))
        else:
            block["distance"] = torch.einsum("hrm,rm->hr", shares, credited.distance(rows).to(shares.dtype))
        for name, table in block.items():
            tables.setdefault(name, []).append(table)
    if not tables:
        return [HeadRow(layer, h, "none", dict.fromkeys(credited.named, NO_SCORE), math.nan, ()) for h in range(heads)]
    joined = {name: _cat(parts).cpu().double().numpy() for name, parts in tables.items()}  # (H or H', N)
    return _rows(layer, heads, joined, (columns, even_columns), (path, even_path), credited)


def _cat(parts: list[Tensor]) -> Tensor:
    """Concatenate blocks of rows; if heads differ in one block, expand all blocks."""
    heads = max(map(len, parts))
    return torch.cat([part.expand(heads, -1) for part in parts], -1)


NO_SCORE = Score(math.nan, math.nan, 0)


def _rows(
    layer: int,
    heads: int,
    tables: dict[str, np.ndarray],
    columns: tuple[Tensor, Tensor],  # (H, M), (H', M): the weight on each key, also of an even head
    paths: tuple[_Path, _Path],  # the same
    credited: _CreditedKeys,
) -> list[HeadRow]:
    counts, size, total = tables["counts"] > 0, tables["size"], tables["total"]
    available = {kind: tables[f"may {kind}"] for kind in credited.kinds}
    choice = {kind: counts & (can > 0) & (can < size) for kind, can in available.items()}
    baselines = {kind: can / np.maximum(size, 1) for kind, can in available.items()}
    # The entropy leaves out a sink's share; times the rest, since a head with all weight on its sink is not even.
    evenness = np.clip(total * tables["entropy"] / np.log(np.maximum(size, 2)), 0, 1)
    top, even_top = (np.sort(each.cpu().double().numpy(), -1)[:, ::-1][:, :COLUMNS].sum(-1) for each in columns)
    top_keys = torch.topk(columns[0], min(COLUMNS, credited.m)).indices.tolist()

    def score(kind: str, h: int, group: int, subset: np.ndarray | bool = True) -> Score:
        """Average over the queries that have a choice."""
        which = choice[kind][group] & subset
        n = int(which.sum())
        return (
            Score(float(tables[kind][h][which].mean()), float(baselines[kind][group][which].mean()), n)
            if n
            else NO_SCORE
        )

    rows = []
    for h in range(heads):
        group = min(h, len(counts) - 1)  # index into (H', …)
        counted = counts[group]
        n = int(counted.sum())
        scores = {kind: score(kind, h, group) for kind in credited.kinds}
        scores["columns"] = Score(top[h] / n, even_top[group] / n, n) if n else NO_SCORE
        scores["uniform"] = Score(float(evenness[h][counted].mean()), 1.0, n) if n else NO_SCORE
        distance = math.nan
        if credited.cross:
            scores["monotone"] = Score(paths[0].value(h), paths[1].value(h), paths[0].count)
        elif n:
            distance = float((tables["distance"][h][counted] / np.maximum(total[h][counted], 1e-30)).mean())
        rare_kinds = [kind for kind in RARE if kind in scores]
        rare = {kind: {k: score(k, h, group, choice[kind][group]) for k in credited.kinds} for kind in rare_kinds}
        name, mixture = _name(scores, rare)
        order = {kind: scores[kind] for kind in credited.named}
        rows.append(HeadRow(layer, h, name, order, distance, tuple(top_keys[h]), mixture))
    return rows


def _name(scores: dict[str, Score], rare: dict[str, dict[str, Score]]) -> tuple[str, tuple[str, ...]]:
    """Return the kind of a head, or "mixed" with its kinds, or "none"."""

    def clear(kind: str, among: dict[str, Score], against: Sequence[str]) -> bool:
        lift = among[kind].lift
        rivals = [among[k].lift for k in against if k != kind and k in among]
        return among[kind].count >= MIN_QUERIES and lift >= CLEAR and all(not r > lift - MARGIN for r in rivals)

    # A head that attends to the first token unless something repeats is named by the repetitions.
    for kind, among in rare.items():
        if clear(kind, among, (*PLAIN, *RARE)):
            return kind, ()
    plain = [k for k in PLAIN if k in scores]
    for kind in plain:
        if clear(kind, scores, plain):
            return kind, ()
    if scores["uniform"].count >= MIN_QUERIES and scores["uniform"].value >= EVEN:
        return "uniform", ()
    if not any(scores[k].lift >= CLEAR for k in plain):
        wide = [k for k in WIDE if k in scores]
        for kind in wide:
            if clear(kind, scores, wide):
                return kind, ()
    parts = tuple(k for k in plain if scores[k].lift >= PART and scores[k].count >= MIN_QUERIES)
    return ("mixed", tuple(sorted(parts, key=lambda k: -scores[k].lift))) if len(parts) > 1 else ("none", ())


def _blocks(heads: int, n: int, m: int) -> Iterator[slice]:
    size = max(attention_maps.BLOCK // max(heads * m, 1), 1)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _real(trace: Trace, part: str, item: int) -> tuple[Tensor, Tensor]:
    """Return which queries and which keys are not padding: (N,), (M,)."""
    keys = _unpadded(trace.keys[part][item]) & _visible(trace.calls[part][0], item)
    queries = _unpadded(
        trace.queries[part][item]
    )  # The mask of cross-attention has no padding of queries; that of the decoder has.
    own_calls = trace.calls.get("decoder" if part == "cross" else part)
    if own_calls and own_calls[0].k.shape[2] == len(queries):
        queries = queries & _visible(own_calls[0], item)
    return queries, keys


def _visible(call: Call | Mixing, item: int) -> Tensor:
    """Return the keys that a query may see, (M,)."""
    batch, heads, n, _ = call.q.shape
    m = call.k.shape[2]
    visible = torch.zeros(m, dtype=torch.bool, device="cpu")
    if isinstance(call.mask, Full):
        return ~visible
    for rows in _blocks(1, n, m):
        rule = call.mask.tensor(n, m, batch=batch, heads=heads, rows=rows, device="cpu")
        rule = rule[min(item, rule.shape[0] - 1)]
        visible |= rule.expand(rule.shape[0], rule.shape[1], m).any(0).any(0)
    return visible


def _unpadded(tokens: Tokens) -> Tensor:
    """Return False for padding: tokens labelled [PAD], or after the last id. A <pad> that starts a decoder isn't padding."""
    real = [not (special and p == "[PAD]") for p, special in zip(tokens.pieces, tokens.special, strict=True)]
    if tokens.ids:
        real[len(tokens.ids) :] = [False] * (len(real) - len(tokens.ids))
    return torch.tensor(real, dtype=torch.bool, device="cpu")


def identities(tokens: Tokens) -> Tensor:
    """Return a number per token, equal for equal tokens, by their ids or else their texts."""
    if tokens.ids:
        return torch.tensor([*tokens.ids, *range(-1, len(tokens.ids) - len(tokens) - 1, -1)], device="cpu")
    numbers_of: dict[str, int] = {}
    numbers = [numbers_of.setdefault(piece, len(numbers_of)) for piece in tokens.pieces]
    return torch.tensor(numbers, dtype=torch.long, device="cpu")


def _delimiters(tokens: Tokens) -> list[int]:
    """Return the tokens that are punctuation, a line end, or special."""
    delimiters = {i for i, special in enumerate(tokens.special) if special}
    for text, first, end in tokens.whole:
        signs = text.strip(" ")
        if signs and all(unicodedata.category(c)[0] == "P" or c in "\n\r" for c in signs):
            delimiters.update(range(first, end))
    return sorted(delimiters)
