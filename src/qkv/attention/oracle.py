"""The reference: softmax(QKᵀ/√d)V in NumPy and float64, one step at a time, with every intermediate result.

Tests compare `attend` and formula.py with it, so it shares no arithmetic with them. Mixers (mixers/reference.py) and the
doctor (doctor/numbers/oracle.py) have separate references. The order is scale, softcap, bias, mask, softmax (as in
Gemma 2), and −inf in a bias hides the pair exactly as a mask does.

B batch, H heads, G key/value heads (H is a multiple), N queries, M keys, D head width, C model width.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..i18n import Problem, _, one_of
from ..terminal.screen import InNotebook
from . import masks
from .shapes import check_bias, check_shapes

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Steps(InNotebook):
    """Every intermediate result of an attention; `print` shows them, `to_dict` and `to_json` export them.

    Leading axes are those of the input: none for one sentence and one head, (H,), (B,) or (B, H).

    >>> s = steps([[1.0, 0.0], [0.0, 1.0]], mask=masks.causal(), names=["I", "sing"])
    >>> s
    <Steps: weights (2, 2), output (2, 2), scale 0.7071>
    >>> s.masked.round(3).tolist(), s.weights.round(3).tolist()
    ([[0.707, -inf], [0.0, 0.707]], [[1.0, 0.0], [0.33, 0.67]])
    >>> s.names(0, 2), s.index(0, 0), s.index_kv(0, 0), s.merged.shape
    (['I', 'sing'], (), (), (2, 2))
    """

    q: Array  # (…, N, D)
    k: Array  # (…, M, D)
    v: Array  # (…, M, D)
    scores: Array  # (…, N, M)  q·kᵀ
    scaled: Array  # (…, N, M)  scores × scale, soft-capped, + bias, if given
    masked: Array  # (…, N, M)  −inf where a query may not attend
    weights: Array  # (…, N, M)  softmax of each row
    heads: Array  # (…, N, D)  weights·v of each head
    output: Array  # (…, N, C)  heads concatenated, times W_o if given
    scale: float
    batched: bool  # the first axis is a batch
    headed: bool  # the axis before (N, M) is heads
    x: Array | None = None  # (…, N, C)  the source of q; None for from_qkv
    memory: Array | None = None  # (…, M, C)  the source of k and v, if it isn't x
    w_q: Array | None = None  # (C, H·D)  None is the identity
    w_k: Array | None = None
    w_v: Array | None = None
    w_o: Array | None = None
    bias: Array | None = None  # broadcasts to the scores
    softcap: float | None = None
    sinks: Array | None = None  # (H,)
    queries: tuple[str, ...] | None = None  # names of the rows
    keys: tuple[str, ...] | None = None  # names of the columns

    def to_dict(self) -> dict[str, Any]:
        """Return lists and numbers. −inf becomes None, since JSON has no infinity; arguments that are None are omitted.

        >>> steps([[1.0, 0.0]]).to_dict()["shapes"]["weights"]
        [1, 1]
        >>> steps([[1.0], [2.0]], mask=masks.causal()).to_dict()["masked"]
        [[1.0, None], [2.0, 4.0]]
        """
        names = [*_INPUTS, "q", "k", "v", "scores", "scaled", "masked", "weights", "heads", "output"]
        tables = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        plain: dict[str, Any] = {name: _to_lists(table) for name, table in tables.items()}
        plain["scale"] = self.scale
        if self.softcap is not None:
            plain["softcap"] = self.softcap
        plain["shapes"] = {name: list(table.shape) for name, table in tables.items()}
        plain["queries"], plain["keys"] = self.names(0, self.scores.shape[-2]), self.names(1, self.scores.shape[-1])
        return plain

    def to_json(self, indent: int | None = None) -> str:
        """Return `to_dict()` as JSON, with non-ASCII characters unescaped.

        >>> steps([[1.0, 0.0]], names=["我"]).to_json()[-42:]
        ' [1, 2]}, "queries": ["我"], "keys": ["我"]}'
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, allow_nan=False)

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        return f"<Steps: weights {self.weights.shape}, output {self.output.shape}, scale {self.scale:.4g}>"

    def _repr_html_(self) -> str:
        """Return the figure, followed by every number, for notebooks."""
        from ..draw.plots import steps_html

        return steps_html(self) + super()._repr_html_()

    def show(self, *, lang: str | None = None, head: int = 0, item: int = 0, digits: int = 3) -> str:
        """Return the five steps as text: for each a sentence, the shape, and the matrix with named rows and columns.

        >>> print(steps([[1.0, 0.0], [0.0, 1.0]]).show(lang="en").splitlines()[0])
        softmax(QKᵀ/√d)V, step by step
        """
        from ..draw.derivation import show

        return show(self, lang=lang, head=head, item=item, digits=digits)

    def word(self, row: int, *, lang: str | None = None, head: int = 0, item: int = 0, digits: int = 3) -> str:
        """Return the output of a query as a sum, as text: weight times row of V for each key, and the total.

        >>> print(steps([[1.0, 0.0], [0.0, 1.0]], names=["I", "sing"]).word(1, lang="en"))
        The row of sing, term by term: Σ weight × V
                   weight    ×V0    ×V1
             I      0.330  0.330  0.000
             sing   0.670  0.000  0.670
             sum    1.000  0.330  0.670
        """
        from ..draw.derivation import word

        return word(self, row, lang=lang, head=head, item=item, digits=digits)

    def terms(self, row: int, *, head: int = 0, item: int = 0) -> Array:
        """Return the terms of a query's output: weight times row of V for each key, (M, D).

        >>> s = steps([[1.0, 0.0], [0.0, 1.0]])
        >>> s.terms(1).round(3).tolist(), bool((s.terms(1).sum(0) == s.output[1]).all())
        ([[0.33, 0.0], [0.0, 0.67]], True)
        """
        return self.weights[self.index(item, head)][row][:, None] * self.v[self.index_kv(item, head)]

    @property
    def merged(self) -> Array:
        """The concatenated outputs of the heads, before W_o: (…, N, H·D)."""
        return _merge(self.heads) if self.headed else self.heads

    def index_kv(self, item: int, head: int) -> tuple[int, ...]:
        """Return the index of a head's keys and values."""
        return self.index(item, head // (self.q.shape[-3] // self.k.shape[-3]) if self.headed else 0)

    def index(self, item: int, head: int) -> tuple[int, ...]:
        """Return the index of a head of an item in the tables."""
        return ((item,) if self.batched else ()) + ((head,) if self.headed else ())

    def names(self, axis: int, size: int) -> list[str]:
        """Return the names of the rows (axis 0) or columns (1)."""
        names = (self.queries, self.keys)[axis]
        return list(names) if names is not None else [f"{'qk'[axis]}{i}" for i in range(size)]


_INPUTS = ("x", "memory", "w_q", "w_k", "w_v", "w_o", "bias", "sinks")


def steps(
    x: ArrayLike,
    w_q: ArrayLike | None = None,
    w_k: ArrayLike | None = None,
    w_v: ArrayLike | None = None,
    w_o: ArrayLike | None = None,
    n_head: int = 1,
    mask: "masks.Mask | ArrayLike | None" = None,
    scale: float | None = None,
    *,
    memory: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    memory_names: Sequence[str] | None = None,
) -> Steps:
    """Compute attention from word vectors: project to q, k, v, split into heads, attend, merge.

    x is (N, C) or (B, N, C); each W is (C, width), q = x·W_q. A W that is None is the identity, so `steps(x)` is
    softmax(X·Xᵀ/√d)·X. With `memory`, keys and values are computed from it (cross-attention). `mask`: True = may attend.
    `scale=1` turns scaling off.

    >>> s = steps([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    >>> s.scaled[0].tolist(), s.weights[0].round(3).tolist()
    ([0.5, 0.0, 0.0], [0.452, 0.274, 0.274])
    """
    x = _checked_array("x", x, (2, 3))
    source = x if memory is None else _checked_array("memory", memory, (2, 3))
    if x.ndim != source.ndim or x.shape[:-2] != source.shape[:-2]:
        raise Problem("x is {x} but memory is {memory}: both need the same batch", x=x.shape, memory=source.shape)
    if memory is None and memory_names is not None:
        raise Problem("memory_names were given without memory: leave them out, or give memory")
    weights = (("w_q", w_q), ("w_k", w_k), ("w_v", w_v), ("w_o", w_o))
    matrices: dict[str, Any] = {name: None if w is None else _checked_array(name, w, (2,)) for name, w in weights}
    q, k, v = (_project(name, t, matrices[name]) for name, t in (("w_q", x), ("w_k", source), ("w_v", source)))
    for name, t in (("q", q), ("k", k), ("v", v)):
        if n_head < 1 or t.shape[-1] % n_head:
            raise Problem(
                "{name} is {width} wide, which doesn't divide into {n_head} heads: choose a divisor",
                name=name,
                width=t.shape[-1],
                n_head=n_head,
            )

    def cut(t: Array) -> Array:
        t = t.reshape(*t.shape[:-1], n_head, -1)  # (…, N, H, D)
        return np.moveaxis(t, -2, -3)  # (…, H, N, D)

    batched = x.ndim == 3
    q4, k4, v4 = (cut(t) if batched else cut(t)[None] for t in (q, k, v))
    results = _attention(q4, k4, v4, mask, scale)
    output = _project("w_o", _merge(results["heads"] if batched else results["heads"][0]), matrices["w_o"])
    squeeze = (slice(None) if batched else 0, 0 if n_head == 1 else slice(None))
    return Steps(
        **{name: t[squeeze] for name, t in results.items()},
        **matrices,
        output=output,
        scale=_scale(scale, q4.shape[-1]),
        batched=batched,
        headed=n_head > 1,
        x=x,
        memory=None if memory is None else source,
        **_labels(names, x, names if memory is None else memory_names, source),
    )


def from_qkv(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: "masks.Mask | ArrayLike | None" = None,
    scale: float | None = None,
    *,
    bias: ArrayLike | None = None,
    softcap: float | None = None,
    sinks: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    memory_names: Sequence[str] | None = None,
) -> Steps:
    """Compute attention from q, k, v: (N, D), (B, N, D) or (B, H, N, D); k and v may have fewer heads (grouped).

    The scores are scaled, limited to ±`softcap` by tanh, `bias` is added (it broadcasts to (B, H, N, M); −inf hides the
    pair), and the mask is applied. `sinks` (H,) is an extra score per head that adds to the sum of the softmax and has
    no value.

    >>> from_qkv([[3, 0]], [[3, 0], [2, 0], [1, 0]], [[1, 0], [0, 1], [0, 0]], scale=1).weights.round(3).tolist()
    [[0.95, 0.047, 0.002]]
    """
    q, k, v = (_checked_array(name, t, (2, 3, 4)) for name, t in (("q", q), ("k", k), ("v", v)))
    if not q.ndim == k.ndim == v.ndim:
        raise Problem(
            "q, k, v are {q}, {k}, {v}: give all three the same number of axes", q=q.shape, k=k.shape, v=v.shape
        )
    lift: Any = {2: (None, None), 3: (slice(None), None), 4: ()}[q.ndim]
    check_shapes(*(t[lift].shape for t in (q, k, v)))
    heads, scores = q[lift].shape[1], (*q[lift].shape[:3], k.shape[-2])
    bias_scores = None if bias is None else _bias(bias, q.ndim, scores)
    if softcap is not None and not 0 < softcap < np.inf:
        raise Problem("softcap is {value}: give a positive number, or None for no cap", value=softcap)
    sink_scores = None if sinks is None else _sinks(sinks, heads)
    results = _attention(q[lift], k[lift], v[lift], mask, scale, bias_scores, softcap, sink_scores)
    drop: Any = {2: (0, 0), 3: (slice(None), 0), 4: ()}[q.ndim]
    results = {name: t[drop] for name, t in results.items()}
    key_names = names if memory_names is None and q.shape[-2] == k.shape[-2] else memory_names
    return Steps(
        **results,
        output=results["heads"] if q.ndim < 4 else _merge(results["heads"]),
        scale=_scale(scale, q.shape[-1]),
        batched=q.ndim > 2,
        headed=q.ndim == 4,
        bias=bias_scores,
        softcap=softcap,
        sinks=sink_scores,
        **_labels(names, q, key_names, k),
    )


def softmax(x: Array, sinks: Array | None = None) -> Array:
    """Return e^x divided by its sum along the last axis, 0 for a row of −inf; `sinks` add to the sum and are dropped.

    The maximum is subtracted first: e^(x−m)/Σe^(x−m) is the same number without overflow.
    """
    top = x.max(-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        top = np.maximum(top, sinks)
    top = np.where(np.isneginf(top), 0.0, top)  # −inf − −inf would be NaN
    with np.errstate(over="ignore"):  # a score 1e308 below the maximum has weight 0, as −inf has
        raised = np.exp(x - top)
        total = raised.sum(-1, keepdims=True)
        if sinks is not None:
            total = total + np.exp(sinks - top)
    return np.divide(raised, total, out=np.zeros_like(raised), where=total != 0)  # NaN stays NaN


def sinusoid(n: int, width: int, base: float = 10000.0, offset: int = 0) -> Array:
    """Return the table of "Attention is all you need": sin and cos of position/base^(2i/width), alternating.

    >>> sinusoid(2, 4).round(3).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.841, 0.54, 0.01, 1.0]]
    """
    angles = np.arange(offset, offset + n)[:, None] / base ** (np.arange(0, width, 2) / width)  # (n, ⌈width/2⌉)
    table = np.empty((n, width))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)[:, : width // 2]
    return table


def _attention(
    q: Array,
    k: Array,
    v: Array,
    mask: "masks.Mask | ArrayLike | None",
    scale: float | None,
    bias: Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
) -> dict[str, Any]:
    """Compute the five steps on (B, H, N, D)."""
    check_shapes(q.shape, k.shape, v.shape)
    per_kv = q.shape[1] // k.shape[1]
    allowed = masks.resolve(mask).array(q.shape[2], k.shape[2], batch=q.shape[0], heads=q.shape[1])
    factor = _scale(scale, q.shape[-1])

    with np.errstate(all="ignore"):  # check_finite reports overflow
        scores = q @ np.repeat(k, per_kv, axis=1).swapaxes(-1, -2)  # (B, H, N, M)
        scaled = scores * factor
        if softcap is not None:
            scaled = softcap * np.tanh(scaled / softcap)
        if bias is not None:
            scaled = scaled + bias
        masked = np.where(allowed, scaled, -np.inf)
        check_finite("scores", scores)
        check_finite("scaled", scaled if bias is None else np.where(np.isneginf(bias), 0.0, scaled))
        weights = softmax(masked, None if sinks is None else sinks.reshape(1, -1, 1, 1))
        heads = weights @ np.repeat(v, per_kv, axis=1)  # (B, H, N, D)
    check_finite("output", heads)
    return dict(q=q, k=k, v=v, scores=scores, scaled=scaled, masked=masked, weights=weights, heads=heads)


def check_finite(name: str, result: Array) -> Array:
    """Return the result; raise if it overflowed float64."""
    key = _("{name} at {place} is {value}, beyond what float64 holds (1.8e308): make the numbers smaller")
    return _refuse_where(~np.isfinite(result), key, name, result)


def _refuse_where(bad: NDArray[np.bool_], key: str, name: str, table: Array) -> Array:
    """Return the table; raise with this message if any of it is bad."""
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise Problem(key, name=name, value=table[index].item(), place=index)
    return table


def _scale(scale: float | None, d: int) -> float:
    if scale is None:
        return d**-0.5
    try:
        value = float(scale)
    except (TypeError, ValueError):
        value = np.nan
    if not np.isfinite(value):
        raise Problem("scale is {value}: give a finite number, 1 for no scaling, or None for 1/√d", value=scale)
    return value


def _bias(value: ArrayLike, axes: int, scores: tuple[int, ...]) -> Array:
    bias = _as_float64("bias", value)
    if bias.ndim == axes == 3:
        bias = bias[:, None]  # (B, N, M), as for masks
    check_bias(bias.shape, scores)
    key = _("bias holds {value} at {place}: give finite numbers, or −inf to hide a pair")
    return _refuse_where(np.isnan(bias) | np.isposinf(bias), key, "bias", bias)


def _sinks(value: ArrayLike, heads: int) -> Array:
    sinks = _as_float64("sinks", value)
    if sinks.shape != (heads,) or not np.isfinite(sinks).all():
        raise Problem(
            "sinks are {shape}: give one finite number per head, ({heads},)",
            shape=sinks.shape if sinks.shape != (heads,) else sinks.tolist(),
            heads=heads,
        )
    return sinks


def _merge(heads: Array) -> Array:
    side_by_side = np.moveaxis(heads, -3, -2)  # (…, H, N, D) → (…, N, H, D)
    *lead, n_head, d = side_by_side.shape
    return side_by_side.reshape(*lead, n_head * d)


def _project(name: str, x: Array, w: Array | None) -> Array:
    if w is None:
        return x
    if w.shape[0] != x.shape[-1]:
        raise Problem(
            "{name} is {shape} but the vectors are {width} wide: it needs {width} rows",
            name=name,
            shape=w.shape,
            width=x.shape[-1],
        )
    with np.errstate(all="ignore"):
        return check_finite({"w_q": "q", "w_k": "k", "w_v": "v"}.get(name, "output"), x @ w)


def _as_float64(name: str, value: ArrayLike) -> Array:
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(np.float64)
    except OverflowError:
        raise Problem("{name} holds a number beyond what float64 holds (1.8e308): make it smaller", name=name) from None
    except (TypeError, ValueError):
        raise Problem(
            "{name} is not a matrix of numbers: give rows of equal length that hold nothing but numbers", name=name
        ) from None


def _checked_array(name: str, value: ArrayLike, axes: tuple[int, ...]) -> Array:
    array = _as_float64(name, value)
    if array.ndim not in axes:
        raise Problem(
            "{name} has {axes} axes, shape {shape}: it needs {wanted}",
            name=name,
            axes=array.ndim,
            shape=array.shape,
            wanted=one_of(axes),
        )
    if array.shape[-1] == 0:
        raise Problem("{name} is {shape}: it needs at least one row and one column", name=name, shape=array.shape)
    return _refuse_where(
        ~np.isfinite(array), _("{name} holds {value} at {place}: attention needs finite numbers"), name, array
    )


def _labels(names: Sequence[str] | None, x: Array, key_names: Sequence[str] | None, source: Array) -> dict[str, Any]:
    """Return the names of queries and keys as fields of `Steps`."""
    if names is not None and len(names) != (size := x.shape[-2]):
        raise Problem("{given} names were given for {size} tokens: give one each", given=len(names), size=size)
    if key_names is not None and len(key_names) != (size := source.shape[-2]):
        key = _("{given} names of keys were given for {size} keys: give one each")
        raise Problem(key, given=len(key_names), size=size)
    queries, keys = (None if each is None else tuple(each) for each in (names, key_names))
    return dict(queries=queries, keys=keys)


def _to_lists(table: Array) -> Any:
    return table.tolist() if np.isfinite(table).all() else np.where(np.isneginf(table), np.array(None), table).tolist()
