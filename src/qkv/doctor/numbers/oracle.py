"""Attention in NumPy float64 with every choice in which a mistake can hide laid open as a word.

The right choices are the defaults; `bugs.py` names the wrong ones. Legend: B batch, H heads, G kv heads,
N queries, M keys, D head width.

>>> x = np.arange(24.0).reshape(1, 3, 8) / 24
>>> joined, viewed = (attention(x, x, x, AttentionForm(heads=2, merge=merge)) for merge in ("hd", "view"))
>>> bool(np.allclose(joined.sum(), viewed.sum()))
True
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray

TOLERANCE = {"float64": 1e-6, "float32": 3e-4}  # relative to the largest number


@dataclass(frozen=True)
class Piece:
    """One mask: who may attend, (B, 1, N, M) True = may, and how it gets into the scores."""

    keep: Array
    how: str = "fill"
    inner: bool = False  # made by the code itself
    given: str = "keep"  # what True meant in the tensor that was handed over, for masks that are added or multiplied


@dataclass(frozen=True)
class AttentionForm:
    """How attention is computed from projected queries, keys and values."""

    heads: int = 1
    kv_heads: int = 0  # 0: as many as heads
    split: str = "hd"  # "hd" or "dh" (both right); "view": cut without transposing; "given": already (B, H, N, D)
    merge: str = "hd"  # "hd" or "dh" (both right); "view": laid out as (B, H, N, D); "mean", "sum"; "given"
    groups: str = "interleave"  # which query heads share a key head
    scale: float | None = None  # None: 1/√D
    softmax: str = "keys"
    divide: float = 1.0  # the weights, after the softmax
    pieces: tuple[Piece, ...] = field(default=())
    rotary: str = ""  # "half" or "pairs": q and k are turned by their positions first
    turned: int = 0  # only so many channels of each head are turned; 0: all
    base: float = 10000.0
    activation: str = ""  # "relu" on q, k and v
    slopes: str = ""  # ALiBi: "right", or which way it is off
    swap: str = ""  # inputs in each other's places


Looks = tuple[Array, Array, float]  # q·kᵀ (B, H, N, M), values (B, H, M, D), 1/√D


def attention(q: Array, k: Array, v: Array, form: AttentionForm, known: dict[Any, Looks] | None = None) -> Array:
    """The context (B, N, H·D) before the output projection; q (B, N, H·D), k and v (B, M, G·D).

    `known` keeps what forms of the same q, k and v have in common, where thousands are tried.
    """
    key = form.heads, form.kv_heads, form.split, form.groups, form.activation, form.rotary, form.turned, form.base
    looks = None if known is None else known.get(key)
    if looks is None:
        looks = _looks(q, k, v, form)
        if known is not None:
            known[key] = looks
    products, v, scale = looks
    scores = products * (scale if form.scale is None else form.scale)
    if form.slopes:
        scores = scores + _alibi(scores, form.slopes)
    weights = _softmax(_masked(scores, form.pieces), form.softmax)
    for piece in form.pieces:
        if piece.how == "after":
            weights = weights * piece.keep
    if form.divide != 1.0:
        weights = weights / form.divide
    return _merge(weights @ v, form.merge)


def _looks(q: Array, k: Array, v: Array, form: AttentionForm) -> Looks:
    """What comes before scale and mask: heads cut, turned by their positions, shared, multiplied."""
    heads, shared = form.heads, form.kv_heads or form.heads
    if form.activation == "relu":
        q, k, v = (np.maximum(x, 0) for x in (q, k, v))
    if form.rotary.startswith("width "):
        q, k = (rotated(x, form.rotary.removeprefix("width "), form.base) for x in (q, k))
    if form.split == "view, keys turned":  # k.reshape(B, H, D, N)
        b, m, width = k.shape
        k = k.reshape(b, shared, width // shared, m).swapaxes(-1, -2)
        q, v = _split(q, heads, "view"), _split(v, shared, "view")
    elif form.split in ("queries across", "keys across"):
        one, two = ("across", "hd") if form.split == "queries across" else ("hd", "across")
        q, k, v = _split(q, heads, one), _split(k, shared, two), _split(v, shared, two)
    else:
        q, k, v = (_split(x, n, form.split) for x, n in ((q, heads), (k, shared), (v, shared)))  # (B, H, N, D)
    if form.rotary and not form.rotary.startswith("width "):
        r = form.turned or q.shape[-1]
        q, k = (np.concatenate([rotated(x[..., :r], form.rotary, form.base), x[..., r:]], -1) for x in (q, k))
    if shared != heads:
        k, v = (_grouped(x, heads // shared, form.groups) for x in (k, v))
    return q @ k.swapaxes(-1, -2), v, q.shape[-1] ** -0.5


def rotated(x: Array, pairing: str, base: float = 10000.0) -> Array:
    """x (…, N, D) turned by its positions 0, 1, …: "half" pairs channel i with i + D/2, "pairs" 2i with 2i + 1.

    "mixed" is the mistake: angles laid out for one pairing, turned by the other.
    """
    n, d = x.shape[-2:]
    if d % 2:
        return np.full_like(x, np.nan)
    angles = np.arange(n)[:, None] * base ** (-np.arange(0, d, 2) / d)  # (N, D/2)
    if pairing == "pairs":
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = (even * np.cos(angles) - odd * np.sin(angles), even * np.sin(angles) + odd * np.cos(angles))
        return np.stack(turned, -1).reshape(x.shape)
    if pairing == "mixed pairs":  # repeat_interleave'd angles, rotate_half
        both = np.repeat(angles, 2, -1)
        return x * np.cos(both) + _half(x) * np.sin(both)
    both = np.concatenate([angles, angles], -1)
    if pairing == "mixed half":  # concatenated angles, neighbours rotated
        return x * np.cos(both) + _neighbours(x) * np.sin(both)
    return x * np.cos(both) + _half(x) * np.sin(both)


def _half(x: Array) -> Array:
    first, second = np.split(x, 2, -1)
    return np.concatenate([-second, first], -1)


def _neighbours(x: Array) -> Array:
    return np.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)


def _split(x: Array, heads: int, how: str) -> Array:
    if how == "given":
        return x
    b, n, width = x.shape
    if width % heads:
        raise ValueError(f"{width} channels don't divide into {heads} heads")
    if how == "view":
        return x.reshape(b, heads, n, width // heads)
    if how == "dh":
        return x.reshape(b, n, width // heads, heads).transpose(0, 3, 1, 2)
    if how == "across":  # heads taken from neighbouring samples: (H, B, …) laid over (B, H, …)
        return x.reshape(b, n, heads, width // heads).transpose(2, 0, 1, 3).reshape(b, heads, n, width // heads)
    return x.reshape(b, n, heads, width // heads).transpose(0, 2, 1, 3)


def _grouped(x: Array, times: int, how: str) -> Array:
    return np.repeat(x, times, 1) if how == "interleave" else np.tile(x, (1, times, 1, 1))


def _merge(x: Array, how: str) -> Array:
    b, heads, n, d = x.shape
    if how == "given":
        return x
    if how == "view":
        return x.reshape(b, n, heads * d)
    if how == "view, tokens first":
        return x.reshape(n, b, heads * d).swapaxes(0, 1)
    if how == "dh":
        return x.transpose(0, 2, 3, 1).reshape(b, n, heads * d)
    if how == "mean":
        return x.mean(1)
    if how == "sum":
        return x.sum(1)
    if how == "across":
        return x.transpose(1, 0, 2, 3).reshape(b, heads, n, d).transpose(0, 2, 1, 3).reshape(b, n, heads * d)
    return x.transpose(0, 2, 1, 3).reshape(b, n, heads * d)


def _masked(scores: Array, pieces: tuple[Piece, ...]) -> Array:
    for piece in pieces:
        keep = piece.keep
        raw = keep if piece.given == "keep" else ~keep  # what the tensor held, True = 1
        if piece.how == "fill":
            scores = np.where(keep, scores, -np.inf)
        elif piece.how == "inverted":
            scores = np.where(keep, -np.inf, scores)
        elif piece.how == "added":
            scores = scores + raw
        elif piece.how == "multiplied":
            scores = scores * raw
        elif piece.how == "zero":
            scores = np.where(keep, scores, 0.0)
        elif piece.how == "zero inverted":
            scores = np.where(keep, 0.0, scores)
        elif piece.how == "low":  # finite: a row without keys sees all of them alike
            scores = np.where(keep, scores, -1e9)
        elif piece.how == "lowered":  # added: a row without keys keeps its own order
            scores = np.where(keep, scores, scores - 1e9)
        elif piece.how not in ("ignored", "after"):
            raise KeyError(piece.how)
    return scores


def relative_error(mine: Array, theirs: Array, size: float = 0.0) -> float:
    """The largest difference relative to the largest number; infinite where only one has NaN, or all is NaN."""
    size = size or largest(theirs)
    with np.errstate(all="ignore"):
        difference = np.abs(mine - theirs)
    missing = np.isnan(mine)
    if missing.all() or not (missing == np.isnan(theirs)).all():  # NaN alone is no number to compare
        return float("inf")
    return float(np.nanmax(np.where(np.isnan(difference), 0, difference))) / size


def largest(array: Array) -> float:
    """The largest finite number of an array, or 1 if there is none."""
    return float(np.abs(np.where(np.isfinite(array), array, 0)).max()) or 1.0


AXES: dict[str, Any] = {
    "keys": -1,
    "queries": -2,
    "heads": 1,
    "batch": 0,
    "heads and keys": (1, 3),
    "batch and heads": (0, 1),
}


def _softmax(scores: Array, over: str) -> Array:
    if over == "nothing":
        return np.where(np.isfinite(scores), scores, 0.0)
    axis = AXES[over]
    top = np.maximum.reduce(scores, axis, keepdims=True)
    if not np.isfinite(top).all():
        top = np.where(np.isfinite(top), top, 0.0)
    powers = np.exp(scores - top)
    return powers / np.add.reduce(powers, axis, keepdims=True)


def _alibi(scores: Array, how: str) -> Array:
    heads, n, m = scores.shape[1:]
    numbers = np.arange(heads) + {"right": 1, "late": 0, "early": 2}.get(how, 1)
    slopes = 2.0 ** (-8 * numbers / heads)
    distance = np.arange(m)[None, :] - (np.arange(n)[:, None] + m - n)
    return slopes[:, None, None] * (-np.abs(distance) if how != "grows" else np.abs(distance))


def changed(form: AttentionForm, **choices: Any) -> AttentionForm:
    """The form with other choices; "masking" sets how every mask gets in."""
    how = choices.pop("masking", None)
    if how is not None:
        choices["pieces"] = tuple(replace(piece, how=how) for piece in form.pieces)
    return replace(form, **choices)
