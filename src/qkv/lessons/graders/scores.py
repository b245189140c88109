"""Scores and cosines, with different sizes."""

import numpy as np

from ...attention.oracle import Array, from_qkv
from ..exercises import scores as solved
from ..lesson import Lesson, WrongAnswer
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
    wrong_answers={
        "scores": {
            "other way": WrongAnswer(
                lambda q, k: k @ q.T,
                "your table is {shape}: rows are keys and columns queries. A row belongs to a query: Q·Kᵀ, not K·Qᵀ.",
            ),
            "pairwise": WrongAnswer(
                lambda q, k: q * k,
                "q * k multiplies number by number and adds nothing up. The dot product needs the sum over d, for "
                "every pair: the operator is @.",
            ),
            "untransposed": WrongAnswer(
                lambda q, k: q @ k,
                "q @ k needs k to have d rows. Both q and k have d columns: transpose k, so that its keys become "
                "columns.",
            ),
            "untransposed dot": WrongAnswer(
                lambda q, k: np.dot(q, k),
                "np.dot(q, k) needs k to have d rows. Both q and k have d columns: transpose k, so that its keys "
                "become columns.",
            ),
            "with itself": WrongAnswer(
                lambda q, k: q @ q.T, "your table is {shape}: q was multiplied with itself. The keys must be in it."
            ),
            "distances": WrongAnswer(
                lambda q, k: np.sqrt(((q[:, None] - k[None]) ** 2).sum(-1)),
                "your numbers are distances |q − k|: small where they fit. A dot product is large there.",
            ),
            "scaled": WrongAnswer(
                lambda q, k: q @ k.T / np.sqrt(q.shape[-1]),
                "your scores are divided by √d already ({got} instead of {want}). That comes in the next exercise.",
            ),
        },
        "cosines": {
            "uncut": WrongAnswer(
                lambda q, k: q @ k.T,
                "{got} is not a cosine: those lie between −1 and 1. Divide the score by the length of q and by the "
                "length of k.",
                values=lambda actual, expected: {"got": float(actual.flat[np.abs(actual).argmax()])},
            ),
            "whole norms": WrongAnswer(
                lambda q, k: q @ k.T / (np.linalg.norm(q) * np.linalg.norm(k)),
                "np.linalg.norm without axis gives one length for the whole matrix, so all your cosines shrink alike. "
                "Each row has its own length: axis=-1.",
            ),
            "squared": WrongAnswer(
                lambda q, k: q @ k.T / ((q**2).sum(-1)[:, None] * (k**2).sum(-1)),
                "you divided by the squared lengths: q and k in one direction give 1/(|q|·|k|), not 1. Take the root.",
            ),
            "query only": WrongAnswer(
                lambda q, k: q @ k.T / np.linalg.norm(q, axis=-1)[:, None],
                "you divided by the length of q alone: {got} instead of {want}. Divide by the length of k too.",
            ),
            "key only": WrongAnswer(
                lambda q, k: q @ k.T / np.linalg.norm(k, axis=-1),
                "you divided by the length of k alone: {got} instead of {want}. Divide by the length of q too.",
            ),
            "angles": WrongAnswer(
                lambda q, k: np.arccos(np.clip(solved.cosines(q, k), -1, 1)),
                "these are the angles in radians ({got}). Return the cosines ({want}), without arccos.",
            ),
        },
    },
    hints={
        "scores": [
            "`a @ b` makes every dot product of a row of a with a column of b.",
            "The keys are the rows of k; `k.T` has them as columns. So the scores are one `@`.",
            "`q @ k.T`",
        ],
        "cosines": [
            "Lengths: `np.linalg.norm(q, axis=-1)` is (N,) and the same of k is (M,). With `[:, None]` the first "
            "becomes a column, (N, 1).",
            "cosines: `q @ k.T`, divided by |q| as a column × |k| as a row.",
        ],
    },
    takeaway="A long key gets high scores whatever its direction: that is why models normalise their inputs.",
)
