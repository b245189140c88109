"""The scale and its effect on the softmax."""

import numpy as np

from ...attention.oracle import Array, from_qkv
from ..exercises import scaling as solved
from ..lesson import Lesson, WrongAnswer
from ..questions import calls

RNG = np.random.default_rng(3)
SIZES = [(1, 2, 4), (3, 5, 6), (7, 8, 64), (2, 3, 1)]
PAIRS = [(RNG.normal(size=(n, d)), RNG.normal(size=(m, d))) for n, m, d in SIZES]


def right(q: Array, k: Array) -> Array:
    return from_qkv(q, k, k).scaled


def right_largest(q: Array, k: Array) -> list[float]:
    return [from_qkv(q, k, k, scale=scale).weights.max(-1).mean() for scale in (1, None)]


LESSON = Lesson(
    questions=[
        *(calls("scaled_scores", right, *pair, names="q k") for pair in PAIRS),
        *(calls("largest_weights", right_largest, *pair, names="q k") for pair in PAIRS),
    ],
    wrong_answers={
        "scaled_scores": {
            "unscaled": WrongAnswer(
                lambda q, k: q @ k.T,
                "your scores aren't scaled: {got}, and {want} is right. Divide by √d, d = q.shape[-1].",
                mistake="S2",
            ),
            "by d": WrongAnswer(
                lambda q, k: q @ k.T / q.shape[-1],
                "you divided by d instead of √d (or by √d twice, which is the same): {got}, and {want} is right. The "
                "variance of a score is d, its spread √d.",
            ),
            "times root": WrongAnswer(
                lambda q, k: q @ k.T * np.sqrt(q.shape[-1]),
                "your scores are d times too large: {got}, and {want} is right. You multiply by √d (or divide by "
                "d**-0.5, which is the same). Divide by √d.",
                mistake="S1",
            ),
            "by keys": WrongAnswer(
                lambda q, k: q @ k.T / np.sqrt(k.shape[0]),
                "you divided by the root of the number of keys. d is how wide a query is: q.shape[-1].",
                mistake="S4",
            ),
            "by queries": WrongAnswer(
                lambda q, k: q @ k.T / np.sqrt(q.shape[0]),
                "you divided by the root of the number of queries (len(q)). d is how wide a query is: q.shape[-1].",
                mistake="S4",
            ),
            "squared": WrongAnswer(
                lambda q, k: q @ k.T / q.shape[-1] ** 2, "you divided by d². Divide by √d: d ** 0.5."
            ),
            "by lengths": WrongAnswer(
                lambda q, k: q @ k.T / (np.linalg.norm(q, axis=-1)[:, None] * np.linalg.norm(k, axis=-1)),
                "these are cosines: you divided by the lengths of q and k. Attention divides every score by √d.",
            ),
            "softmax too": WrongAnswer(
                lambda q, k: solved.softmax(right(q, k)),
                "your rows add up to 1: this is the softmax already. Here only the scaled scores are asked for.",
            ),
        },
        "largest_weights": {
            "swapped": WrongAnswer(
                {"plain, scaled": "scaled, plain"},
                "the two numbers are right but the other way round: first without scaling, then with it.",
            ),
            "after softmax": WrongAnswer(
                {"softmax(scaled_scores(q, k))": "softmax(q @ k.T) / np.sqrt(q.shape[-1])"},
                "you took the softmax first and divided by √d afterwards: {got} instead of {want}. The weights then no "
                "longer add up to 1. Scale the scores, then take the softmax.",
                mistake="S6",
            ),
            "overall": WrongAnswer(
                {".max(-1).mean()": ".max()"},
                "you took the largest weight of the whole table. Take that of each row, .max(-1), then the mean.",
            ),
            "per key": WrongAnswer(
                {"-1": "0"},
                "you took the maximum of each column, over the queries. A row belongs to a query: .max(-1).",
            ),
            "of scores": WrongAnswer(
                {"softmax": ""},
                "{got} is not a weight: those lie between 0 and 1. You took the maximum of the scores; the softmax "
                "comes first.",
            ),
            "same twice": WrongAnswer(
                {"q @ k.T": "scaled_scores(q, k)"},
                "both your numbers are scaled. The first is for the plain scores, q @ k.T.",
            ),
            "scaled twice": WrongAnswer(
                {"softmax(scaled_scores(q, k))": "softmax(scaled_scores(q, k) / np.sqrt(q.shape[-1]))"},
                "the first number is right; for the second the scores are divided by √d twice ({got} instead of "
                "{want}). scaled_scores(q, k) has done it already: only the softmax is left.",
            ),
            "one scale more": WrongAnswer(
                {
                    "q @ k.T": "scaled_scores(q, k)",
                    "softmax(scaled_scores(q, k))": "softmax(scaled_scores(q, k) / np.sqrt(q.shape[-1]))",
                },
                "both your numbers are scaled once too often: the first is that of the scaled scores, the second is "
                "scaled twice. First q @ k.T as it is, then scaled_scores(q, k).",
            ),
        },
    },
    hints={
        "scaled_scores": [
            "d is the last size of q: q.shape[-1].",
            "np.sqrt(q.shape[-1]) is the number to divide by: one number for the whole table.",
            "`return q @ k.T / np.sqrt(q.shape[-1])`",
        ],
        "largest_weights": ["largest_weights: `softmax(q @ k.T).max(-1).mean()`, and the same of scaled_scores(q, k)."],
    },
    takeaway="Without the root the softmax nearly picks one key and its gradient vanishes. `qkv lab scaling` draws it "
    "for widths up to 1,024.",
)
