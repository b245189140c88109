"""The formula of attention, softmax(QKᵀ/√d)V, one step at a time, in NumPy and float64.

Nothing here is fast and nothing is hidden: this is the reference that every other path is compared with.

B batch, H heads, G key/value heads (H is a multiple), N queries, M keys, D head width, C model width.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import grid
from ..words import Problem, say
from . import masks

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Steps:
    """Every intermediate result of one attention; `print` shows them, `to_dict` and `to_json` hand them on.

    Leading axes are those of the input: none for one sentence and one head, (H,), (B,) or (B, H).
    """

    q: Array  # (…, N, D)
    k: Array  # (…, M, D)
    v: Array  # (…, M, D)
    scores: Array  # (…, N, M)  q·kᵀ
    scaled: Array  # (…, N, M)  scores × scale (+ bias, soft-capped, where asked)
    masked: Array  # (…, N, M)  −inf where a query may not look
    weights: Array  # (…, N, M)  softmax of each row
    heads: Array  # (…, N, D)  weights·v, head by head
    output: Array  # (…, N, C)  heads side by side, times W_o where there is one
    scale: float
    batched: bool  # the first axis is a batch
    headed: bool  # the axis before (N, M) is heads
    made: str = (
        "given"  # where q, k, v come from: "given", or "project" (from x), or "project.cross" (from x and memory)
    )
    w_o: Array | None = None
    queries: tuple[str, ...] | None = None  # what each row is called
    keys: tuple[str, ...] | None = None  # what each column is called

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; −inf in `masked` becomes None, since JSON has no infinity."""
        names = ("q", "k", "v", "scores", "scaled", "masked", "weights", "heads", "output")
        plain: dict[str, Any] = {name: getattr(self, name).tolist() for name in names}
        plain["masked"] = _without_infinity(plain["masked"])
        plain["scale"] = self.scale
        plain["shapes"] = {name: list(getattr(self, name).shape) for name in names}
        plain["queries"], plain["keys"] = self._names(0, self.scores.shape[-2]), self._names(1, self.scores.shape[-1])
        return plain

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as JSON text, Chinese left readable."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, allow_nan=False)

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        return f"<Steps: weights {self.weights.shape}, output {self.output.shape}, scale {self.scale:.4g}>"

    def show(self, *, lang: str | None = None, head: int = 0, item: int = 0, digits: int = 3) -> str:
        """The five steps as text: a sentence on what happens, the shape, the matrix with its rows and columns named."""
        n, m, d = *self.scores.shape[-2:], self.q.shape[-1]
        rows, columns = self._names(0, n), self._names(1, m)
        at = self._index(item, head)
        scores, scaled, masked, weights = (getattr(self, s)[at] for s in ("scores", "scaled", "masked", "weights"))
        hidden = np.isneginf(masked)

        lines = [say("steps.title", lang), say("steps.sizes", lang, n=n, m=m, d=d)]
        if self.batched:
            lines.append(say("steps.batch", lang, item=item, items=self.scores.shape[0]))
        if self.headed:
            lines.append(say("steps.head", lang, head=head, heads=self.scores.shape[-3]))

        lines += ["", f"0  Q {self.q.shape}  K {self.k.shape}  V {self.v.shape}"]
        lines += ["   " + say(f"steps.{self.made}", lang)]
        per_kv = self.q.shape[-3] // self.k.shape[-3] if self.headed else 1
        at_kv = self._index(item, head // per_kv)
        for name, table, labels in (
            ("Q", self.q[at], rows),
            ("K", self.k[at_kv], columns),
            ("V", self.v[at_kv], columns),
        ):
            lines += _indent(f"{name}\n" + grid.numbers(table, labels, digits=digits, most=10))

        def step(title: str, whole: Array, sentence: str, table: Array, labels: Sequence[str] | None = columns) -> None:
            lines.extend(["", f"{title}  {whole.shape}", "   " + sentence])
            lines.extend(_indent(grid.numbers(table, rows, labels, digits=digits)))

        if scores.size:
            best = np.unravel_index(scores.argmax(), scores.shape)
            match = dict(query=rows[best[0]], key=columns[best[1]], value=float(scores[best]))
            step("1  scores = Q·Kᵀ", self.scores, say("steps.scores", lang, **match), scores)
            usual = np.isclose(self.scale, d**-0.5)
            key = "steps.scaled" if usual else "steps.scaled.off" if self.scale == 1 else "steps.scaled.own"
            title = "2  scaled = scores/√d" if usual else f"2  scaled = scores × {self.scale:.4g}"
            step(title, self.scaled, say(key, lang, scale=self.scale, d=d), scaled)
            key = "steps.masked" if hidden.any() else "steps.masked.none"
            step("3  masked", self.masked, say(key, lang, hidden=int(hidden.sum()), total=hidden.size), masked)
            most = np.unravel_index(weights.argmax(), weights.shape)
            share = dict(query=rows[most[0]], key=columns[most[1]], value=float(weights[most]))
            step("4  weights = softmax(masked)", self.weights, say("steps.weights", lang, **share), weights)
            sums = weights.sum(-1)
            lines.append("   " + say("row.sum", lang, low=float(sums.min()), high=float(sums.max())))
            if (dead := hidden.all(-1)).any():
                lines.append(
                    "   " + say("steps.weights.dead", lang, rows=", ".join(rows[i] for i in np.flatnonzero(dead)))
                )
        step("5  output = weights·V", self.heads, say("steps.output", lang), self.heads[at], None)
        if self.headed:
            lines.append("   " + say("steps.merge", lang, heads=self.scores.shape[-3], shape=self.output.shape))
        if self.w_o is not None:
            lines.append("   " + say("steps.project.out", lang))
        if self.headed or self.w_o is not None:
            whole = self.output[item] if self.batched else self.output
            lines += _indent(grid.numbers(whole, rows, digits=digits))
        return "\n".join(lines)

    def word(self, row: int, *, lang: str | None = None, head: int = 0, item: int = 0, digits: int = 3) -> str:
        """One query's output written out as a sum: each key's weight, times its row of V, and the total."""
        at = self._index(item, head)
        kv = self._index(item, head // (self.q.shape[-3] // self.k.shape[-3]) if self.headed else 0)
        weights, v = self.weights[at][row], self.v[kv]
        terms = weights[:, None] * v  # (M, D)
        labels = [*self._names(1, len(v)), say("steps.word.sum", lang)]
        table = np.vstack([terms, terms.sum(0)])
        shares = np.append(weights, weights.sum())[:, None]
        columns = [say("steps.word.weight", lang), *(f"×V{j}" for j in range(v.shape[1]))]
        title = say("steps.word", lang, word=self._names(0, self.scores.shape[-2])[row])
        return "\n".join([title, *_indent(grid.numbers(np.hstack([shares, table]), labels, columns, digits, most=16))])

    def _index(self, item: int, head: int) -> tuple[int, ...]:
        return ((item,) if self.batched else ()) + ((head,) if self.headed else ())

    def _names(self, axis: int, size: int) -> list[str]:
        given = (self.queries, self.keys)[axis]
        return list(given) if given is not None else [f"{'qk'[axis]}{i}" for i in range(size)]


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
    """Attention from word vectors: project to q, k, v, cut into heads, attend, merge.

    x is (N, C) or (B, N, C); each W is (C, width) and is multiplied from the right, q = x·W_q; one left out is the
    identity, so `steps(x)` is the plain softmax(X·Xᵀ/√d)·X. With `memory`, keys and values come from there
    (cross-attention). `mask`: True = may attend. `scale=1` switches the scaling off.

    >>> s = steps([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    >>> s.scaled[0].tolist(), s.weights[0].round(3).tolist()
    ([0.5, 0.0, 0.0], [0.452, 0.274, 0.274])
    """
    x = _array("x", x, (2, 3))
    source = x if memory is None else _array("memory", memory, (2, 3))
    if x.ndim != source.ndim or x.shape[:-2] != source.shape[:-2]:
        raise ValueError(f"x is {x.shape} but memory is {source.shape}: both need the same batch")
    q, k, v = _project("w_q", x, w_q), _project("w_k", source, w_k), _project("w_v", source, w_v)
    for name, t in (("q", q), ("k", k), ("v", v)):
        if n_head < 1 or t.shape[-1] % n_head:
            raise Problem("problem.heads", name=name, width=t.shape[-1], n_head=n_head)

    def cut(t: Array) -> Array:
        t = t.reshape(*t.shape[:-1], n_head, -1)  # (…, N, H, D)
        return np.moveaxis(t, -2, -3)  # (…, H, N, D)

    batched = x.ndim == 3
    q4, k4, v4 = (cut(t) if batched else cut(t)[None] for t in (q, k, v))
    done = _attention(q4, k4, v4, mask, scale)
    output = _merge(done["heads"] if batched else done["heads"][0])
    if w_o is not None:
        output = _project("w_o", output, w_o)
    squeeze = (slice(None) if batched else 0, 0 if n_head == 1 else slice(None))
    keys = memory_names if memory is not None else names
    return Steps(
        **{name: t[squeeze] for name, t in done.items()},
        output=output,
        scale=_scale(scale, q4.shape[-1]),
        batched=batched,
        headed=n_head > 1,
        made="given" if w_q is None else "project" if memory is None else "project.cross",
        w_o=None if w_o is None else _array("w_o", w_o, (2,)),
        queries=_checked("names", names, x.shape[-2]),
        keys=_checked("names of keys", keys, source.shape[-2]),
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
    """Attention from q, k, v themselves: (N, D), (B, N, D) or (B, H, N, D); k and v may have fewer heads (grouped).

    `bias` is added after scaling, `softcap` bends scores to ±softcap by tanh, `sinks` (H,) is a score per head that
    takes its share of the softmax and gives nothing.

    >>> from_qkv([[3, 0]], [[3, 0], [2, 0], [1, 0]], [[1, 0], [0, 1], [0, 0]], scale=1).weights.round(3).tolist()
    [[0.95, 0.047, 0.002]]
    """
    q, k, v = (_array(name, t, (2, 3, 4)) for name, t in (("q", q), ("k", k), ("v", v)))
    if not q.ndim == k.ndim == v.ndim:
        raise ValueError(f"q, k, v are {q.shape}, {k.shape}, {v.shape}: give all three the same number of axes")
    lift: Any = {2: (None, None), 3: (slice(None), None), 4: ()}[q.ndim]
    done = _attention(q[lift], k[lift], v[lift], mask, scale, bias, softcap, sinks)
    drop: Any = {2: (0, 0), 3: (slice(None), 0), 4: ()}[q.ndim]
    done = {name: t[drop] for name, t in done.items()}
    output = done["heads"] if q.ndim < 4 else _merge(done["heads"])
    return Steps(
        **done,
        output=output,
        scale=_scale(scale, q.shape[-1]),
        batched=q.ndim > 2,
        headed=q.ndim == 4,
        queries=_checked("names", names, q.shape[-2]),
        keys=_checked("names of keys", memory_names if memory_names is not None else names, k.shape[-2])
        if memory_names is not None or q.shape[-2] == k.shape[-2]
        else None,
    )


def check_shapes(q: Sequence[int], k: Sequence[int], v: Sequence[int]) -> None:
    """Refuse q (B, H, N, D), k (B, G, M, D), v (B, G, M, Dv) that don't fit together, saying which and why."""
    for name, shape in (("q", q), ("k", k), ("v", v)):
        if len(shape) != 4:
            raise ValueError(f"{name} is {tuple(shape)}: it needs four axes (batch, heads, tokens, head width)")
    if not q[0] == k[0] == v[0]:
        raise ValueError(f"batches differ: q has {q[0]}, k has {k[0]}, v has {v[0]}; give all three the same batch")
    if q[3] != k[3]:
        raise ValueError(f"q is {q[3]} wide but k is {k[3]}: a dot product needs equal widths")
    if k[2] != v[2]:
        raise ValueError(f"there are {k[2]} keys but {v[2]} values: give one value per key")
    if k[1] != v[1]:
        raise ValueError(f"k has {k[1]} heads but v has {v[1]}: give both the same")
    if k[1] == 0 or q[1] % k[1]:
        raise ValueError(f"{q[1]} query heads don't divide over {k[1]} key heads: the first must be a multiple")


def softmax(x: Array, sinks: Array | None = None) -> Array:
    """e^x divided by its sum along the last axis, a row of −inf giving 0; `sinks` joins the sum and is left out.

    The maximum is taken off first: e^(x−m)/Σe^(x−m) is the same number, and nothing overflows.
    """
    top = x.max(-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        top = np.maximum(top, sinks)
    raised = np.exp(x - np.where(np.isneginf(top), 0.0, top))
    total = raised.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks - np.where(np.isneginf(top), 0.0, top))
    return np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)


def sinusoid(n: int, width: int, base: float = 10000.0, offset: int = 0) -> Array:
    """The table of "Attention is all you need": sin and cos of position/base^(2i/width), in turn along the width.

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
    bias: ArrayLike | None = None,
    softcap: float | None = None,
    sinks: ArrayLike | None = None,
) -> dict[str, Any]:
    """The five steps on (B, H, N, D)."""
    check_shapes(q.shape, k.shape, v.shape)
    per_kv = q.shape[1] // k.shape[1]
    allowed = masks.resolve(mask).array(q.shape[2], k.shape[2], batch=q.shape[0], heads=q.shape[1])

    scores = q @ np.repeat(k, per_kv, axis=1).swapaxes(-1, -2)  # (B, H, N, M)
    scaled = scores * _scale(scale, q.shape[-1])
    if bias is not None:
        scaled = scaled + np.asarray(bias, dtype=np.float64)
    if softcap is not None:
        scaled = softcap * np.tanh(scaled / softcap)
    masked = np.where(allowed, scaled, -np.inf)
    weights = softmax(masked, None if sinks is None else np.asarray(sinks, dtype=np.float64).reshape(1, -1, 1, 1))
    heads = weights @ np.repeat(v, per_kv, axis=1)  # (B, H, N, D)
    return dict(q=q, k=k, v=v, scores=scores, scaled=scaled, masked=masked, weights=weights, heads=heads)


def _scale(scale: float | None, d: int) -> float:
    return d**-0.5 if scale is None else float(scale)


def _merge(heads: Array) -> Array:
    side_by_side = np.moveaxis(heads, -3, -2)  # (…, H, N, D) → (…, N, H, D)
    *lead, n_head, d = side_by_side.shape
    return side_by_side.reshape(*lead, n_head * d)


def _project(name: str, x: Array, w: ArrayLike | None) -> Array:
    if w is None:
        return x
    w = _array(name, w, (2,))
    if w.shape[0] != x.shape[-1]:
        raise Problem("problem.rows", name=name, shape=w.shape, width=x.shape[-1])
    return x @ w


def _array(name: str, value: ArrayLike, axes: tuple[int, ...]) -> Array:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Problem("problem.matrix", name=name, reason=error) from None
    if array.ndim not in axes:
        wanted = " or ".join(map(str, axes))
        raise Problem("problem.axes", name=name, axes=array.ndim, shape=array.shape, wanted=wanted)
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise Problem("problem.nonfinite", name=name, value=array[place].item(), place=place)
    return array


def _checked(what: str, names: Sequence[str] | None, size: int) -> tuple[str, ...] | None:
    if names is not None and len(names) != size:
        raise ValueError(f"{len(names)} {what} were given for {size} tokens: give one each")
    return None if names is None else tuple(names)


def _indent(text: str) -> list[str]:
    return ["     " + line for line in text.split("\n")]


def _without_infinity(value: Any) -> Any:
    return [_without_infinity(v) for v in value] if isinstance(value, list) else None if value == -np.inf else value
