"""Reference of the mixers, each as one matrix: y = A·V with A lower triangular, in NumPy and float64.

    retention      A = L ∘ (Q Kᵀ)                                     L: products of one decay γ
    Mamba-2        A = L ∘ (C Bᵀ), V = Δ·x                            L: products of decays e^(Δ·rate), one per token
    gated delta    A = (L ∘ Q Kᵀ)·(I + tril(β·K Kᵀ ∘ L, −1))⁻¹·β      each write replaces the value of its key

Without softmax a state (key width × value width) replaces the n×n matrix. Here the state is computed token by token and
the output by the whole matrix; a test says that they agree. This is slow; tests compare every other form with it.

One head of one text: N tokens, D key width, P value width; leading axes are allowed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class Mixed(NamedTuple):
    """The matrix, the output, and the state after the last token.

    >>> whole = Mixed(np.eye(2), np.ones((2, 1)), np.ones((1, 1)))
    >>> bool((whole.weights @ [[1.0], [1.0]] == whole.output).all())
    True
    """

    weights: Array  # (…, N, N), signed; rows don't sum to 1
    output: Array  # (…, N, P)
    state: Array  # (…, D, P)


def retention(q: ArrayLike, k: ArrayLike, v: ArrayLike, gamma: ArrayLike, scale: float = 1.0) -> Mixed:
    """Compute retention: one γ for all tokens; a value written i tokens ago has the factor γ^i.

    >>> retention([[1.0], [1.0], [1.0]], [[1.0], [1.0], [1.0]], [[8.0], [0.0], [0.0]], gamma=0.5).output.round(3).tolist()
    [[8.0], [4.0], [2.0]]
    """
    q, k, v = (np.asarray(t, np.float64) for t in (q, k, v))
    return linear(q, k, v, np.broadcast_to(np.log(np.asarray(gamma, np.float64))[..., None], q.shape[:-1]), scale)


def ssd(c: ArrayLike, b: ArrayLike, x: ArrayLike, step: ArrayLike, rate: ArrayLike) -> Mixed:
    """Compute Mamba-2 (SSD): a larger step Δ writes Δ·x and decays the state by e^(Δ·rate), rate < 0.

    >>> ssd([[1.0], [1.0]], [[1.0], [1.0]], [[8.0], [1.0]], step=[1.0, 2.0], rate=-np.log(2)).output.tolist()
    [[8.0], [4.0]]
    """
    c, b, x, step = (np.asarray(t, np.float64) for t in (c, b, x, step))
    return linear(c, b, step[..., None] * x, step * np.asarray(rate, np.float64)[..., None])


def linear(q: ArrayLike, k: ArrayLike, v: ArrayLike, decay: ArrayLike, scale: float = 1.0) -> Mixed:
    """Compute decayed linear attention: S ← γ·S + k·vᵀ, y = Sᵀ·q. `decay` (…, N) is log γ of every token.

    >>> linear([[1.0], [2.0]], [[1.0], [1.0]], [[3.0], [4.0]], decay=[0.0, 0.0]).weights.tolist()
    [[1.0, 0.0], [2.0, 2.0]]
    """
    q, k, v, decay = (np.asarray(t, np.float64) for t in (q, k, v, decay))
    weights = products(decay) * (q @ np.swapaxes(k, -1, -2)) * scale
    state = np.zeros((*v.shape[:-2], k.shape[-1], v.shape[-1]))
    for t in range(v.shape[-2]):
        state = np.exp(decay[..., t, None, None]) * state + k[..., t, :, None] * v[..., t, None, :]
    return Mixed(weights, weights @ v, state)


def delta(q: ArrayLike, k: ArrayLike, v: ArrayLike, decay: ArrayLike, write: ArrayLike, scale: float = 1.0) -> Mixed:
    """Compute the gated delta rule: S ← γ·S, then the value of key k moves towards v by β: S ← S + β·k·(v − Sᵀk)ᵀ.

    >>> key = [[1.0], [1.0]]
    >>> delta(key, key, [[3.0], [5.0]], decay=[0.0, 0.0], write=[1.0, 1.0]).output.tolist()  # the second write replaces the first
    [[3.0], [5.0]]
    """
    q, k, v, decay, write = (np.asarray(t, np.float64) for t in (q, k, v, decay, write))
    overlap = np.tril(write[..., None] * products(decay) * (k @ np.swapaxes(k, -1, -2)), -1)  # (…, N, N)
    corrected = np.linalg.inv(np.eye(overlap.shape[-1]) + overlap) * write[..., None, :]
    weights = linear(q, k, v, decay, scale).weights @ corrected
    state = np.zeros((*v.shape[:-2], k.shape[-1], v.shape[-1]))
    for t in range(v.shape[-2]):
        state = np.exp(decay[..., t, None, None]) * state
        stored = np.einsum("...dp,...d->...p", state, k[..., t, :])
        state = state + write[..., t, None, None] * k[..., t, :, None] * (v[..., t, :] - stored)[..., None, :]
    return Mixed(weights, weights @ v, state)


def products(decay: ArrayLike) -> Array:
    """Return L, the decay from token j to token i: γ_{j+1}···γ_i = e^(Σ log γ), 0 for j > i.

    >>> products(np.log([0.5, 0.5, 0.1])).round(2).tolist()
    [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.05, 0.1, 1.0]]
    """
    decay = np.asarray(decay, np.float64)
    total = np.cumsum(decay, -1)
    between = np.tril(total[..., :, None] - total[..., None, :])
    return np.tril(np.exp(between))
