"""Scores and cosines, on sizes that are all different."""

import numpy as np

from ...attention.oracle import Array, from_qkv
from ...i18n import Message
from ..exercises import scores as solved
from ..lesson import Lesson, Wrong
from ..questions import calls

RNG = np.random.default_rng(2)


def _pair(n: int, m: int, d: int) -> tuple[Array, Array]:
    return RNG.normal(size=(n, d)) * 2, RNG.normal(size=(m, d)) * 3


PAIRS = [
    (np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [2.0, -1.0], [0.0, 1.0]])),
    _pair(3, 5, 4),
    _pair(4, 4, 7),
    _pair(1, 6, 1),
]


def right_scores(q: Array, k: Array) -> Array:
    return from_qkv(q, k, k).scores


def right_cosines(q: Array, k: Array) -> Array:
    def length(t: Array) -> Array:
        return np.sqrt((t * t).sum(-1, keepdims=True))

    return from_qkv(q / length(q), k / length(k), k).scores


LESSON = Lesson(
    questions=[
        *(calls("scores", right_scores, *pair, names="q k") for pair in PAIRS),
        *(calls("cosines", right_cosines, *pair, names="q k") for pair in PAIRS),
    ],
    wrongs={
        "scores": [
            Wrong(
                "other way",
                lambda q, k: k @ q.T,
                "your table is {shape}: rows are keys and columns queries. A row belongs to a query: Q·Kᵀ, not K·Qᵀ.",
            ),
            Wrong(
                "pairwise",
                lambda q, k: q * k,
                "q * k multiplies number by number and adds nothing up. The dot product needs the sum over d, for "
                "every pair: the sign is @.",
            ),
            Wrong(
                "untransposed",
                lambda q, k: q @ k,
                "q @ k wants the rows of k to be d long. Both q and k have d columns: transpose k, so that its keys "
                "become columns.",
            ),
            Wrong(
                "untransposed dot",
                lambda q, k: np.dot(q, k),
                "np.dot(q, k) wants k to have d rows. Both q and k have d columns: transpose k, so that its keys "
                "become columns.",
            ),
            Wrong(
                "with itself",
                lambda q, k: q @ q.T,
                "your table is {shape}: q was multiplied with itself. The keys must be in it.",
            ),
            Wrong(
                "distances",
                lambda q, k: np.sqrt(((q[:, None] - k[None]) ** 2).sum(-1)),
                "your numbers are distances |q − k|: small where they fit. A score is the dot product: large where "
                "they fit.",
            ),
            Wrong(
                "scaled",
                lambda q, k: q @ k.T / np.sqrt(q.shape[-1]),
                "your scores are divided by √d already ({got} instead of {want}). That comes in the next exercise; "
                "here the plain dot product.",
            ),
        ],
        "cosines": [
            Wrong(
                "uncut",
                lambda q, k: q @ k.T,
                "{got} is no cosine: those lie between −1 and 1. Divide the score by the length of q and by the "
                "length of k.",
                lambda got, want: {"got": float(got.flat[np.abs(got).argmax()])},
            ),
            Wrong(
                "whole norms",
                lambda q, k: q @ k.T / (np.linalg.norm(q) * np.linalg.norm(k)),
                "np.linalg.norm without axis gives one length for the whole matrix, so all your cosines shrink alike. "
                "Each row has its own length: axis=-1.",
            ),
            Wrong(
                "squared",
                lambda q, k: q @ k.T / ((q**2).sum(-1)[:, None] * (k**2).sum(-1)),
                "you divided by the squared lengths: q and k in one direction then give 1/(|q|·|k|) instead of 1. The "
                "root is missing.",
            ),
            Wrong(
                "query only",
                lambda q, k: q @ k.T / np.linalg.norm(q, axis=-1)[:, None],
                "you divided by the length of q alone: {got} where the cosine is {want}. Divide by the length of k too.",
            ),
            Wrong(
                "key only",
                lambda q, k: q @ k.T / np.linalg.norm(k, axis=-1),
                "you divided by the length of k alone: {got} where the cosine is {want}. Divide by the length of q too.",
            ),
            Wrong(
                "angles",
                lambda q, k: np.arccos(np.clip(solved.cosines(q, k), -1, 1)),
                "these are the angles themselves, in radians ({got}). The cosine was asked for ({want}): leave arccos "
                "out.",
            ),
        ],
    },
    hints={
        "scores": [
            Message("`a @ b` makes every dot product of a row of a with a column of b."),
            Message("The keys are the rows of k; `k.T` has them as columns. So the scores are one `@`."),
            Message("`q @ k.T`"),
        ],
        "cosines": [
            Message(
                "Lengths: `np.linalg.norm(q, axis=-1)` is (N,) and the same of k is (M,). With `[:, None]` the first "
                "becomes a column, (N, 1)."
            ),
            Message("cosines: `q @ k.T`, divided by |q| as a column × |k| as a row."),
        ],
    },
    after=Message(
        "A long key gets a high score from everyone, whatever its direction: that is why models normalise "
        "what comes in."
    ),
)
