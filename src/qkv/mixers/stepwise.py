"""Retention, Mamba-2 and the gated delta rule on a few tokens, with every number, in three equal forms.

    parallel      one table A for the whole text, y = A·V, as in attention
    recurrent     token by token, with a state S
    chunkwise     a table inside each chunk of tokens, a state between chunks; used in training

`qkv steps --mixer` prints it (draw/mixer_derivation.py). N tokens, D key width, P value width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..i18n import Problem
from ..terminal.screen import InNotebook
from . import reference

Array = NDArray[np.float64]
Kind = Literal["linear", "retention", "mamba2", "delta"]
KINDS: tuple[Kind, ...] = ("retention", "mamba2", "delta")


@dataclass(frozen=True)
class Chunk:
    """Tokens begin … end: what they read inside the chunk, and from the state before it.

    >>> Chunk(0, 1, np.ones((1, 1)), np.zeros((1, 1))).output.tolist()
    [[1.0]]
    """

    begin: int
    end: int
    inside: Array  # (end − begin, P)
    before: Array  # (end − begin, P)

    @property
    def output(self) -> Array:
        """The sum of both."""
        return self.inside + self.before


@dataclass(frozen=True, eq=False, repr=False)
class MixerSteps(InNotebook):
    """Every intermediate result of one head; `print` shows them, `to_dict` exports them.

    >>> one = [[1.0], [1.0]]
    >>> steps = mixing("retention", one, one, [[4.0], [8.0]], decay=[0.5, 0.5])
    >>> steps
    <MixerSteps of retention: weights (2, 2), state (1, 1)>
    >>> steps.weights.tolist(), steps.output.tolist(), steps.states.ravel().tolist()
    ([[1.0, 0.0], [0.5, 1.0]], [[4.0], [10.0]], [4.0, 10.0])
    """

    kind: Kind
    q: Array  # (N, D); C for Mamba-2
    k: Array  # (N, D); B for Mamba-2
    v: Array  # (N, P); Δ·x for Mamba-2
    decay: Array  # (N,) γ of each token, above 0 and up to 1
    write: Array | None  # (N,) β of each token, for the delta rule
    step: Array | None  # (N,) Δ of each token, for Mamba-2
    scale: float
    scores: Array  # (N, N) q·kᵀ × scale
    left: Array  # (N, N) L: decay from token j to token i
    corrected: Array | None  # (N, N) (I + tril(β·K·Kᵀ ∘ L, −1))⁻¹·β, for the delta rule
    weights: Array  # (N, N) A
    output: Array  # (N, P) A·V
    states: Array  # (N, D, P) after each token
    stepped: Array  # (N, P) Sᵀ·q × scale, token by token
    chunks: tuple[Chunk, ...]
    names: tuple[str, ...]

    @property
    def difference(self) -> float:
        """The largest difference between the three forms.

        >>> one = [[1.0], [1.0]]
        >>> mixing("retention", one, one, one, decay=[0.5, 0.5]).difference < 1e-15
        True
        """
        chunked = np.concatenate([chunk.output for chunk in self.chunks])
        return float(max(np.abs(self.stepped - self.output).max(), np.abs(chunked - self.output).max()))

    def to_dict(self) -> dict[str, object]:
        """Return lists and numbers; tables that this kind doesn't have are omitted.

        >>> mixing("retention", [[1.0]], [[1.0]], [[2.0]], decay=[1.0]).to_dict()["weights"]
        [[1.0]]
        """
        tables = ("q", "k", "v", "decay", "write", "step", "scores", "left", "corrected", "weights", "output", "states")
        plain: dict[str, object] = {"mixer": self.kind, "names": list(self.names), "scale": self.scale}
        plain |= {name: table.tolist() for name in tables if (table := getattr(self, name)) is not None}
        plain["recurrent"] = self.stepped.tolist()
        plain["chunkwise"] = [
            {"begin": c.begin, "end": c.end, "inside": c.inside.tolist(), "before": c.before.tolist()}
            for c in self.chunks
        ]
        return plain

    def terms(self, row: int) -> Array:
        """Return the contributions of each token to the output of this one, weight × V, (N, P).

        >>> one = [[1.0], [1.0]]
        >>> mixing("retention", one, one, [[4.0], [8.0]], decay=[0.5, 0.5]).terms(1).tolist()
        [[2.0], [8.0]]
        """
        return self.weights[row][:, None] * self.v

    def show(self, lang: str | None = None, digits: int = 3) -> str:
        """Return all steps as text.

        >>> one = [[1.0], [1.0]]
        >>> print(mixing("retention", one, one, one, decay=[0.5, 0.5], names=["a", "b"]).show("en").splitlines()[0])
        Retention, step by step: y = (L ∘ Q·Kᵀ)·V, no softmax
        """
        from ..draw.mixer_derivation import show

        return show(self, lang, digits)

    def __repr__(self) -> str:
        return f"<MixerSteps of {self.kind}: weights {self.weights.shape}, state {self.states.shape[1:]}>"


def mixing(
    kind: Kind,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    decay: ArrayLike,
    *,
    write: ArrayLike | None = None,
    step: ArrayLike | None = None,
    scale: float = 1.0,
    chunk: int = 2,
    names: Sequence[str] | None = None,
) -> MixerSteps:
    """Compute one head in all three forms. `decay` is γ of each token, `write` β of the delta rule; for Mamba-2 v is Δ·x.

    >>> one = [[1.0], [1.0]]
    >>> mixing("retention", one, one, [[4.0], [0.0]], decay=[0.5, 0.5]).states.ravel().tolist()
    [4.0, 2.0]
    """
    q, k, v, gamma = (np.asarray(t, np.float64) for t in (q, k, v, decay))
    beta = None if write is None else np.asarray(write, np.float64)
    if (wrong := gamma[~((gamma > 0) & (gamma <= 1))]).size:
        raise Problem("γ is {value}: a decay is above 0 and up to 1", value=float(wrong[0]))
    if not isinstance(chunk, int) or chunk < 1:
        raise Problem("chunk is {chunk}: give a whole number of tokens, 1 or more", chunk=repr(chunk))
    n, log = len(v), np.log(gamma)
    factors, scores = reference.products(log), q @ k.T * scale
    if beta is None:
        corrected, whole = None, reference.linear(q, k, v, log, scale)
    else:
        whole = reference.delta(q, k, v, log, beta, scale)
        overlap = np.tril(beta[:, None] * factors * (k @ k.T), -1)
        corrected = np.linalg.inv(np.eye(n) + overlap) * beta
    states, stepped = _recurrent(q, k, v, gamma, beta, scale)
    return MixerSteps(
        kind, q, k, v, gamma, beta, None if step is None else np.asarray(step, np.float64), float(scale), scores, factors,
        corrected, whole.weights, whole.output, states, stepped, _chunkwise(q, k, v, gamma, beta, scale, chunk),
        tuple(f"t{i}" for i in range(n)) if names is None else tuple(names),
    )  # fmt: skip


def _recurrent(q: Array, k: Array, v: Array, gamma: Array, beta: Array | None, scale: float) -> tuple[Array, Array]:
    """Return the state after each token (N, D, P) and the outputs (N, P)."""
    state = np.zeros((k.shape[1], v.shape[1]))
    states, outputs = [], []
    for t in range(len(v)):
        state = gamma[t] * state
        new = v[t] if beta is None else beta[t] * (v[t] - state.T @ k[t])  # without what the key stores already
        state = state + np.outer(k[t], new)
        states.append(state)
        outputs.append(state.T @ q[t] * scale)
    return np.stack(states), np.stack(outputs)


def _chunkwise(
    q: Array, k: Array, v: Array, gamma: Array, beta: Array | None, scale: float, size: int
) -> tuple[Chunk, ...]:
    """Compute a table inside each chunk and the state between chunks."""
    state, chunks = np.zeros((k.shape[1], v.shape[1])), []
    for begin in range(0, len(v), size):
        at = slice(begin, min(begin + size, len(v)))
        inner = np.tril(np.ones((at.stop - begin, at.stop - begin)))
        total = np.cumsum(np.log(gamma[at]))
        factors = np.exp(np.tril(total[:, None] - total)) * inner
        faded = np.exp(total)[:, None]  # decay of the old state at each token
        scores = factors * (q[at] @ k[at].T) * scale
        new, old = v[at], faded * (q[at] @ state) * scale
        if beta is not None:
            overlap = np.tril(beta[at, None] * factors * (k[at] @ k[at].T), -1)
            correct = np.linalg.inv(np.eye(len(overlap)) + overlap) * beta[at]
            overwritten = correct @ (faded * (k[at] @ state))  # what the old state stores for these keys
            new, old = correct @ v[at], old - scores @ overwritten
        chunks.append(Chunk(begin, at.stop, scores @ new, old))
        writes = new if beta is None else new - overwritten
        state = np.exp(total[-1]) * state + (k[at] * np.exp(total[-1] - total)[:, None]).T @ writes
    return tuple(chunks)


def random_mixing(
    kind: Kind, x: Array, seed: int, *, gamma: float | None = None, chunk: int = 2, names: Sequence[str] | None = None
) -> MixerSteps:
    """Compute one head on word vectors x (N, C), with random matrices.

    The convolution, positions, gate and norm of the layers are omitted.

    >>> random_mixing("delta", np.eye(3), seed=0).difference < 1e-12
    True
    """
    width = x.shape[1]
    rng = np.random.default_rng([seed, 0])
    w_q, w_k, w_v, _ = rng.standard_normal((4, width, width)) / np.sqrt(width)  # those of `qkv steps`
    w_step, w_write = rng.standard_normal((2, width)) / np.sqrt(width)
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    compute = partial(mixing, kind, chunk=chunk, names=names)
    if kind == "retention":
        decay = np.full(len(x), 1 - 2.0**-5 if gamma is None else gamma)  # the paper's first head
        return compute(q, k, v, decay, scale=width**-0.5)
    step = np.logaddexp(0, x @ w_step)  # softplus
    if kind == "mamba2":
        return compute(q, k, step[:, None] * v, np.exp(-step), step=step)
    q, k = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in (q, k))
    write = 1 / (1 + np.exp(-(x @ w_write)))
    return compute(q, k, v, np.exp(-step), write=write, scale=width**-0.5)
