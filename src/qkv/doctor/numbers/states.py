"""Layers that keep a state instead of all keys: retention, linear attention, the delta rule, right and with mistakes.

Each is y = A·V, so each is kept as its table A, which the mixers' reference gives where it is right. Where a layer makes its
decays and shares itself they are read off the table: the diagonal holds what is written, the one below it what is left.

B texts, H heads, N tokens, D key width, P value width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...mixers import reference

Array = np.ndarray
Step = Callable[[Array, int], tuple[Array, Array]]  # (state, token) → (the state afterwards, what is read from)


@dataclass(frozen=True)
class StateMixing:
    """What a layer mixes, and how: one decay and one share for each token."""

    q: Array  # (B, H, N, D)
    k: Array
    v: Array  # (B, H, N, P)
    gamma: Array  # (B, H, N): how much of the state a token leaves
    beta: Array  # (B, H, N): how much of itself it writes
    rule: str = "add"  # or "delta", which takes out first what the key held
    chunk: int = 0  # where it works in chunks
    shares: bool = False  # rows are divided by their sum
    causal: bool = True

    @property
    def steady(self) -> bool:
        """Whether every token leaves as much of the state as every other."""
        return bool(np.ptp(self.gamma, -1).max() < 1e-9)


def table(m: StateMixing) -> Array:
    """A (B, H, N, N) as it should be, by the mixers' reference."""
    decay = np.log(m.gamma)
    if m.rule == "delta":
        return reference.delta(m.q, m.k, m.v, decay, m.beta).weights
    weights = (reference.linear(m.q, m.k, m.v, decay).weights if m.causal else scores(m)) * m.beta[..., None, :]
    if m.shares:
        with np.errstate(all="ignore"):  # a row that sees nothing
            weights = weights / weights.sum(-1, keepdims=True)
    return weights


def scores(m: StateMixing) -> Array:
    """What a query is to every key, (B, H, N, N)."""
    return np.asarray(m.q @ m.k.swapaxes(-1, -2))


def faded(m: StateMixing, left: Array) -> Array:
    """A with other decays than the right ones: left (…, N, N) says how much is left of what j wrote when i reads it."""
    return np.asarray(left * scores(m) * m.beta[..., None, :])


def stepped(m: StateMixing, step: Step) -> Array:
    """A of a recurrence, token by token: what each token would read if the values were the tokens themselves."""
    b, h, n, d = m.q.shape
    state, rows = np.zeros((b, h, d, n)), []
    for t in range(n):
        state, read = step(state, t)
        rows.append(np.einsum("bhd,bhdp->bhp", m.q[..., t, :], read))
    return np.stack(rows, 2)


def written(m: StateMixing, t: int) -> Array:
    """k vᵀ of a token, where the values are the tokens themselves, (B, H, D, N)."""
    return m.k[..., t, :, None] * np.eye(m.q.shape[2])[t]


def held(m: StateMixing, state: Array, t: int) -> Array:
    """k (Sᵀk)ᵀ: what the token's key holds in that state, where it stands."""
    return np.asarray(m.k[..., t, :, None] * np.einsum("bhdp,bhd->bhp", state, m.k[..., t, :])[..., None, :])


def each(numbers: Array, t: int) -> Array:
    """A number of every token, of this one, beside states."""
    return np.asarray(numbers[..., t, None, None])


# --- what q and k may become before they meet ---------------------------------------------------------------------


def _unit(x: Array) -> Array:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12))


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


FEATURES: dict[str, Callable[[Array], Array]] = {
    "": lambda x: x,
    "unit": _unit,
    "elu + 1": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": _silu,
    "unit silu": lambda x: _unit(_silu(x)),
}


def _met(q: Array, k: Array) -> Iterator[tuple[str, Array, Array]]:
    """q and k as people change them before they meet."""
    for name, change in FEATURES.items():
        yield name, change(q), change(k)
        if name == "unit":
            yield name, q, change(k)


def featured(m: StateMixing) -> Iterator[StateMixing]:
    """The same with q and k as people change them before they meet, in the usual scales."""
    d = m.q.shape[-1]
    for name, q, k in _met(m.q, m.k):
        yield from (replace(m, q=q * scale, k=k) for scale in (1.0, d**-0.5, 1 / d))
        if name in ("elu + 1", "relu", "silu"):
            yield from (replace(m, q=q, k=k, shares=True, causal=causal) for causal in (True, False))


# --- a layer whose decays and shares nobody told -------------------------------------------------------------------


def recovered(q: Array, k: Array, v: Array, output: Array) -> Iterator[StateMixing]:
    """Mixers that give this output (B, H, N, P), their decays and shares read off its table; no more tokens than P."""
    n = q.shape[2]
    if n > v.shape[-1] or n < 3:
        return
    found = _table_of(v, output)
    if found is None:
        return
    if np.abs(np.triu(found, 1)).max() > 1e-7 * np.abs(found).max():
        return  # it sees what comes later
    ones = np.ones(q.shape[:3])
    for rule in ("add", "delta"):
        for _name, left, right in _met(q, k):
            if (m := _read_off(StateMixing(left, right, v, ones, ones, rule), found)) is not None:
                yield m


def steady(q: Array, k: Array, v: Array, output: Array) -> StateMixing | None:
    """The mixer with one decay per head that the first two tokens of the first text speak of; the others may differ."""
    if q.shape[2] > v.shape[-1] or (found := _table_of(v[:1], output[:1])) is None:
        return None
    ones = np.ones(q.shape[:3])
    meets = scores(StateMixing(q, k, v, ones, ones))
    with np.errstate(all="ignore"):
        left = found[0] / meets[0]  # (H, N, N)
        gamma, beta = left[:, 1, 0] / left[:, 0, 0], left[:, 0, 0]
    if not (np.isfinite(gamma).all() and (gamma > 0).all() and (gamma < 1 + 1e-9).all()):
        return None
    return StateMixing(q, k, v, gamma[:, None] * ones, beta[:, None] * ones)


def _table_of(v: Array, output: Array) -> Array | None:
    """A of output = A·V, for no more tokens than values have channels; None where the output is no sum of values."""
    if not np.isfinite(output).all() or not np.isfinite(v).all():
        return None
    found = output @ np.linalg.pinv(v)
    return np.asarray(found) if np.abs(found).max() > 0 and close(found @ v, output, 1e-7) else None


def _read_off(m: StateMixing, found: Array) -> StateMixing | None:
    """The mixer of this kind with that table, if there is one."""
    meets, keys = scores(m), m.k @ m.k.swapaxes(-1, -2)
    with np.errstate(all="ignore"):
        beta = np.diagonal(found, axis1=-2, axis2=-1) / np.diagonal(meets, axis1=-2, axis2=-1)
        left = np.diagonal(meets, -1, -2, -1)
        if m.rule == "delta":
            left = left - beta[..., 1:] * np.diagonal(meets, axis1=-2, axis2=-1)[..., 1:] * np.diagonal(
                keys, -1, -2, -1
            )
        gamma = np.diagonal(found, -1, -2, -1) / (left * beta[..., :-1])
    if not (np.isfinite(beta).all() and np.isfinite(gamma).all() and (gamma > 0).all()):
        return None
    made = replace(m, beta=beta, gamma=np.concatenate([np.ones_like(gamma[..., :1]), gamma], -1))
    return made if close(table(made), found, 1e-5) else None


def close(a: Array, b: Array, tolerance: float) -> bool:
    """Equal to rounding, by the largest number."""
    return a.shape == b.shape and bool(np.abs(a - b).max() <= tolerance * (np.abs(b).max() or 1.0))


def told(wrong: Array, right: Array, **values: Any) -> dict[str, Any]:
    """For the evidence: the pair of tokens whose number is furthest off, with both numbers."""
    off = np.abs(wrong[0, 0] - right[0, 0])
    i, j = (int(place) for place in np.unravel_index(int(off.argmax()), off.shape))
    return {"i": i, "j": j, "got": float(wrong[0, 0, i, j]), "want": float(right[0, 0, i, j]), **values}
