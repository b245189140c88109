"""Scores and weights of any rectangle of an attention call; used by the plain kernel and by every view.

    scores    softcap(q·kᵀ·scale) + bias, −inf where a query may not attend
    weights   softmax of each row; a sink adds to the sum and has no value; a row that may attend to nothing is 0

Works on NumPy arrays without importing torch, and on torch tensors with gradients. The oracle (oracle.py) does not use it,
because tests compare the two. Without gradients, tables are overwritten: allocating one costs more than its arithmetic.

B batch, H heads, G key/value heads (H is a multiple; head h reads group h // (H/G), as LLaMA does), N queries, M keys,
D head width; R rows and C columns of a rectangle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from ..i18n import Problem
from .mask_algebra import A, Full, Mask, Span
from .rules import Band, narrowest

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MASKED = float("-inf")  # the score of a pair that may not attend


@dataclass(frozen=True, eq=False, repr=False)
class Call:
    """Arguments of one `attend` call: references, not copies.

    >>> import torch
    >>> from .masks import causal
    >>> x = torch.eye(2)[None, None]
    >>> call = Call(x, x, x, causal(), scale=1.0, name="decoder.0")
    >>> call
    <Call decoder.0: q (1, 1, 2, 2), k (1, 1, 2, 2), mask causal()>
    >>> call.weights()[0, 0].round(decimals=2), call.allowed()[0, 0].tolist(), call.added() is None
    (tensor([[1.0000, 0.0000],
            [0.2700, 0.7300]]), [[True, False], [True, True]], True)
    >>> call.n_head, bool((call.applied(call.table(), [0]) == call.weights() @ x).all())
    (1, True)
    >>> call.only(heads=[0]).q.shape, call.mapped(torch.Tensor.double).q.dtype
    (torch.Size([1, 1, 2, 2]), torch.float64)
    """

    q: Tensor  # (B, H, N, D), after positions
    k: Tensor  # (B, G, M, D), not repeated for grouped heads
    v: Tensor  # (B, G, M, Dv)
    mask: Mask
    scale: float
    bias: Tensor | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    name: str | None = None  # of the layer that called
    lse: Tensor | None = None  # (B, H, N): log Σ e^score of every row, if the kernel returned it

    def weights(self, heads: Sequence[int] | None = None) -> Tensor:
        """Return the exact weights of these heads (default: all) before dropout, (B, heads, N, M)."""
        import torch

        with torch.no_grad():
            return weights(self.only(heads))

    @property
    def n_head(self) -> int:
        """Number of query heads; the heads of a group share keys and values."""
        return self.q.shape[1]

    def table(self) -> Tensor:
        """Return the weights with their gradient, as passed to edits: (B, H, N, M)."""
        return weights(self)

    def applied(self, table: Tensor, heads: Sequence[int]) -> Tensor:
        """Return the output of these heads for the weights in `table`, (B, heads, N, Dv)."""
        per_kv = self.n_head // self.k.shape[1]
        return mix(table, self.v[:, [head // per_kv for head in heads]], table.dtype)

    def only(self, heads: Sequence[int] | None = None, items: Sequence[int] | None = None) -> Call:
        """Return the call restricted to these heads and batch items (default: all)."""
        per_kv = self.q.shape[1] // self.k.shape[1]
        keys = None if heads is None else [head // per_kv for head in heads]
        q, k, v = (pick(t, items, h) for t, h in ((self.q, heads), (self.k, keys), (self.v, keys)))
        bias = _with_four_axes(self.bias)
        if bias is not None:
            bias = pick(bias, items if bias.shape[0] > 1 else None, heads if bias.shape[1] > 1 else None)
        sinks = None if self.sinks is None else take(self.sinks, heads, 0)
        lse = None if self.lse is None else pick(self.lse, items, heads)
        return replace(self, q=q, k=k, v=v, mask=self.mask.only(items, heads), bias=bias, sinks=sinks, lse=lse)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Call:
        """Return the call with `change` (move, cast, detach) applied to q, k, v, bias and sinks."""
        q, k, v = change(self.q), change(self.k), change(self.v)
        bias, sinks = (None if t is None else change(t) for t in (self.bias, self.sinks))
        lse = None if self.lse is None or q.dtype != self.q.dtype else change(self.lse)  # exact as q and k are
        return replace(self, q=q, k=k, v=v, bias=bias, sinks=sinks, lse=lse)

    def allowed(self, rows: Span = None, cols: Span = None) -> Tensor:
        """Return the mask of a rectangle as a bool tensor that broadcasts to (B, H, R, C)."""
        return _mask_array(self.mask, self.q, self.k.shape[2], rows, cols)

    def added(self, rows: Span = None, cols: Span = None) -> Tensor | None:
        """Return the bias of a rectangle, which broadcasts to (B, H, R, C), or None."""
        bias = _with_four_axes(self.bias)
        if bias is None:
            return None
        n, m = self.q.shape[2], self.k.shape[2]
        bias = take(bias, rows, 2) if bias.shape[2] == n else bias
        return take(bias, cols, 3) if bias.shape[3] == m else bias

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        return f"<Call {name}q {tuple(self.q.shape)}, k {tuple(self.k.shape)}, mask {self.mask!r}>"


def scores(call: Call, rows: Span = None, cols: Span = None, *, hidden: float = MASKED) -> Tensor:
    """Return the masked scores (B, H, R, C) in float32 or better; `hidden` where a query may not attend.

    >>> q = np.eye(2)[None, None]
    >>> scores(Call(q, 4 * q, q, Band(None, 0), 0.5), rows=[0, 1], cols=slice(0, 2))[0, 0].tolist()
    [[2.0, -inf], [0.0, 2.0]]
    """
    return _masked_scores(call, rows, cols, hidden)[0]


def weights(call: Call, rows: Span = None, cols: Span = None) -> Tensor:
    """Return the exact weights (B, H, R, C); `cols` must contain all keys that the rows may attend to.

    >>> q = np.eye(2)[None, None]
    >>> weights(Call(q, q, q, Band(None, -1), 1.0)).tolist()
    [[[[0.0, 0.0], [1.0, 0.0]]]]
    """
    # Hidden scores are the lowest finite number: with −inf a fully hidden row and its gradient would be NaN. Such a row is
    # uniform after the softmax and set to 0 below.
    table, empty_rows = _masked_scores(call, rows, cols, None)
    in_place = _can_overwrite(table)
    shares = softmax(table, call.sinks, in_place=in_place)
    return shares if empty_rows is None else _fill(shares, empty_rows, 0.0, in_place)


def softmax(scores: A, sinks: A | None = None, *, in_place: bool = False) -> A:
    """Return the softmax of each row of scores (…, H, R, C); `sinks` (H,) add to the sum and are dropped.

    With `in_place` the scores may be overwritten.
    """
    if scores.shape[-1] == 0:
        return scores
    if isinstance(scores, np.ndarray):
        top = scores.max(-1, keepdims=True)
        shares = np.exp(scores - top)  # same weights, no overflow
        shares /= shares.sum(-1, keepdims=True)
        return shares if sinks is None else shares * sink_factor(top - np.log(shares.max(-1, keepdims=True)), sinks)
    import torch

    if sinks is None:
        return torch.softmax(scores, -1, out=scores if in_place else None)
    if not in_place:  # with gradients, an extra column is fastest forward and backward
        column = sinks.to(scores.dtype).reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)
        return torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    # log Σe^s = s − log(weight of s) for any s of the row; the largest is used. This needs no second table.
    top = scores.amax(-1, keepdim=True)
    shares = torch.softmax(scores, -1, out=scores)
    return shares.mul_(sink_factor(top - shares.amax(-1, keepdim=True).log(), sinks))


def mix(weights: Tensor, v: Tensor, dtype: torch.dtype) -> Tensor:
    """Return weights·v, (B, H, N, Dv), with v shared by the heads of a group."""
    batch, n_head, n, m = weights.shape
    rows = weights.reshape(batch, v.shape[1], n_head // v.shape[1] * n, m)
    with no_autocast(weights):
        return (rows @ v.to(weights.dtype)).reshape(batch, n_head, n, v.shape[3]).to(dtype)


def sink_factor(total: A, sinks: A) -> A:
    """Return Σe^s / (Σe^s + e^sink) for sinks (H,) and rows whose log Σe^s is `total`, (…, H, R, 1)."""
    over = total - sinks.reshape(-1, 1, 1)
    if isinstance(over, np.ndarray):
        return np.exp(-np.logaddexp(0, -over))
    return over.to(total.dtype).sigmoid()


def lse(call: Call, rows: Span = None, cols: Span = None) -> Tensor:
    """Return log Σ e^score of every row, sinks included, (B, H, R); −inf for a row that may attend to nothing."""
    return _log_sum(scores(call, rows, cols), call.sinks)


def visible_keys(mask: Mask, n: int, m: int, rows: slice) -> slice:
    """Return the keys that rows `rows` of n queries can attend to, according to the bands of the mask.

    >>> visible_keys(Band(2, 0), 9, 9, slice(4, 6)), visible_keys(Band(None, 0), 9, 4, slice(0, 3))
    (slice(2, 6, None), slice(0, 0, None))
    """
    before, after = narrowest(mask.terms())
    low = 0 if before is None else min(max(rows.start + m - n - before, 0), m)
    high = m if after is None else min(rows.stop + m - n + after, m)
    return slice(low, max(low, high))


def take(table: A, span: Span, axis: int) -> A:
    """Select from an axis by slice or indices (None: all). Slices and single indices are views."""
    if span is None:
        return table
    if not isinstance(span, slice) or span.step not in (None, 1):
        numbers = list(span_indices(span, table.shape[axis]))
        span = slice(numbers[0], numbers[0] + 1) if len(numbers) == 1 else numbers
    return table[(slice(None),) * axis + (span,)]


def pick(table: A, items: Sequence[int] | None, heads: Sequence[int] | None) -> A:
    """Select items and heads of a table (B, H, …)."""
    return take(take(table, items, 0), heads, 1)


def span_indices(span: Span, size: int) -> range | list[int]:
    """Return the indices that a span selects from an axis of this size."""
    if span is None:
        return range(size)
    if isinstance(span, slice):
        return range(*span.indices(size))
    numbers = [int(i) for i in span]
    for i in numbers:
        if not -size <= i < size:
            raise Problem("there is no token {place}: they count from 0 to {last}", place=i, last=size - 1)
    return [i % size for i in numbers]


def _masked_scores(call: Call, rows: Span, cols: Span, hidden: float | None) -> tuple[Tensor, Tensor | None]:
    """Return scores (B, H, R, C), `hidden` (None: the lowest finite number) where masked, and a bool table (B', H', R, 1)
    of the rows that may attend to nothing; None if there are surely none."""
    q, k = _upcast(take(call.q, rows, 2)), _upcast(take(call.k, cols, 2))
    batch, heads, r, width = q.shape
    groups, c, library = *k.shape[1:3], _library(q)
    with no_autocast(q):
        folded = (q * call.scale).reshape(batch, groups, heads // groups * r, width)  # the heads of a group share keys
        table = (folded @ k.swapaxes(-1, -2)).reshape(batch, heads, r, c)
    if call.softcap is not None:
        table = library.tanh(table / call.softcap) * call.softcap
    in_place, hidden = _can_overwrite(table), float(library.finfo(table.dtype).min) if hidden is None else hidden
    bias, bias_allows = call.added(rows, cols), None
    if bias is not None:
        if in_place:
            table += bias
        else:
            table = table + bias
        bias_allows = bias != MASKED
        bias_allows = None if _all(bias_allows) else bias_allows
    parts = _band_edges(call, rows, cols) if in_place else None
    if bias_allows is None and parts is not None:
        for inside, part in parts:
            _fill(table[..., inside], ~call.allowed(rows, part), hidden, in_place)
        return table, None
    allowed = None if isinstance(call.mask, Full) else call.allowed(rows, cols)
    if bias_allows is not None:
        allowed = bias_allows if allowed is None else allowed & bias_allows
    if allowed is None:
        return table, None
    empty_rows = ~allowed.any(-1)[..., None]
    return _fill(table, ~allowed, hidden, in_place), None if _all(~empty_rows) else empty_rows


def _band_edges(call: Call, rows: Span, cols: Span) -> list[tuple[slice, slice]] | None:
    """Return the keys that only some of these rows may attend to, as (columns of the rectangle, keys).

    Only for band masks and a block of rows, where they are the few keys at the edges of the band; None otherwise.
    """
    if not isinstance(rows, slice) or not (cols is None or isinstance(cols, slice)):
        return None
    rules = [rule for rule in call.mask.terms() if not isinstance(rule, Full)]
    if not all(isinstance(rule, Band) for rule in rules):
        return None
    n, m = call.q.shape[2], call.k.shape[2]
    queries, keys = span_indices(rows, n), span_indices(cols, m)
    if not (isinstance(queries, range) and isinstance(keys, range) and queries.step == keys.step == 1 and queries):
        return None
    before, after = narrowest(rules)
    low = keys.start if before is None else max(keys.start, queries[-1] + m - n - before)
    high = keys.stop if after is None else min(keys.stop, queries[0] + m - n + after + 1)
    if low >= high:
        return None
    edges = [part for part in (slice(keys.start, low), slice(high, keys.stop)) if part.start < part.stop]
    return [(slice(part.start - keys.start, part.stop - keys.start), part) for part in edges]


def _mask_array(mask: Mask, q: A, m: int, rows: Span, cols: Span) -> A:
    """Return the mask of a rectangle for queries q over m keys."""
    batch, heads, n, _ = q.shape
    if isinstance(q, np.ndarray):
        return mask.array(n, m, batch=batch, heads=heads, rows=rows, cols=cols)
    return mask.tensor(n, m, batch=batch, heads=heads, rows=rows, cols=cols, device=q.device)


def _log_sum(scores: A, sinks: A | None) -> A:
    """Return log Σ e^score along the last axis, sinks included."""
    if isinstance(scores, np.ndarray):
        total = np.logaddexp.reduce(scores, -1)
        return total if sinks is None else np.logaddexp(total, sinks[:, None])
    total = scores.logsumexp(-1)
    return total if sinks is None else total.logaddexp(sinks[:, None].to(total.dtype))


def _upcast(table: A) -> A:
    """Return half-precision tables as float32: float16 overflows at 65,504, and a score is a sum of D products."""
    if isinstance(table, np.ndarray):
        return table.astype(np.float32) if table.dtype == np.float16 else table
    return table if table.dtype.itemsize > 2 else table.float()


def _library(table: A) -> ModuleType:
    """Return NumPy or torch."""
    if isinstance(table, np.ndarray):
        return np
    import torch

    return torch


def no_autocast(table: A) -> AbstractContextManager[object]:
    """Disable autocast, which would cast a product back to half precision."""
    if isinstance(table, np.ndarray) or table.is_meta:
        return nullcontext()
    import torch

    kind = table.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def _can_overwrite(table: A) -> bool:
    """True if a new table may be overwritten: always in NumPy; in torch only on the CPU, without gradients and not compiled."""
    if isinstance(table, np.ndarray):
        return True
    import torch

    return not torch.is_grad_enabled() and table.device.type == "cpu" and not torch.compiler.is_compiling()


def _fill(table: A, where: A, value: float, in_place: bool) -> A:
    if isinstance(table, np.ndarray):
        np.copyto(table, value, where=where)
        return table
    return table.masked_fill_(where, value) if in_place else table.masked_fill(where, value)


def _all(table: A) -> bool:
    """True if all values are known to be True; False on devices, where reading them would wait, and while compiling."""
    if not isinstance(table, np.ndarray):
        import torch

        if table.device.type != "cpu" or torch.compiler.is_compiling():
            return False
    return bool(table.all())


def _with_four_axes(bias: A | None) -> A | None:
    """Return a bias with all four axes."""
    return None if bias is None else bias.reshape((1,) * (4 - bias.ndim) + tuple(bias.shape))
