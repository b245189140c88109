"""Weights times values, and the whole of attention."""

import numpy as np

from ...attention.oracle import Array, softmax
from ..lesson import Lesson, WrongAnswer
from ..questions import attention_output, calls

RNG = np.random.default_rng(5)
MIXES = [
    (softmax(RNG.normal(size=(n, m)) * 2), RNG.normal(size=(m, e)))
    for n, m, e in [(2, 5, 3), (4, 4, 4), (3, 3, 6), (1, 2, 1)]
]
TRIPLES = [
    (RNG.normal(size=(n, d)) * 2, RNG.normal(size=(m, d)) * 2, RNG.normal(size=(m, e)))
    for n, m, d, e in [(5, 5, 4, 4), (2, 5, 3, 4), (4, 3, 8, 1), (3, 3, 1, 2)]
]


def right_sum(weights: Array, v: Array) -> Array:
    return np.stack(
        [sum((w * value for w, value in zip(shares, v, strict=True)), np.zeros(v.shape[1])) for shares in weights]
    )


LESSON = Lesson(
    questions=[
        *(calls("weighted_sum", right_sum, *pair, names="weights v") for pair in MIXES),
        *(calls("attention", attention_output, *triple, names="q k v") for triple in TRIPLES),
    ],
    wrong_answers={
        "weighted_sum": {
            "turned": WrongAnswer(
                lambda weights, v: weights.T @ v,
                "you multiply the transposed weights: each key then adds up what queries gave it. Row i of the weights "
                "belongs to query i, so weights @ v, without .T.",
            ),
            "mean of values": WrongAnswer(
                lambda weights, v: np.repeat(v.mean(0, keepdims=True), len(weights), 0),
                "every query gets the plain mean of the values: the weights aren't used.",
            ),
            "divided": WrongAnswer(
                lambda weights, v: weights @ v / len(v),
                "your numbers are the right ones divided by the number of keys ({got} instead of {want}). The weights "
                "add up to 1 already: their sum is a mean, nothing is left to divide.",
            ),
            "strongest": WrongAnswer(
                lambda weights, v: v[weights.argmax(-1)],
                "each query takes only the value of its strongest key. Add up all values, each times its weight.",
            ),
            "other side": WrongAnswer(
                lambda weights, v: v.T @ weights.T,
                "your output is {shape}, transposed: the outputs stand in columns. Put the weights in front: weights @ "
                "v is {right}.",
            ),
            "elementwise": WrongAnswer(
                lambda weights, v: weights * v,
                "weights * v multiplies number by number without a sum. Each output is a sum of all values: weights @ "
                "v.",
            ),
        },
        "attention": {
            "unscaled": WrongAnswer(
                lambda q, k, v: softmax(q @ k.T) @ v,
                "the scale is missing ({got} instead of {want}): divide the scores by √d before the softmax.",
                mistake="S2",
            ),
            "by d": WrongAnswer(
                lambda q, k, v: softmax(q @ k.T / q.shape[-1]) @ v,
                "your scores are divided by d, not by √d: the weights come out too even ({got} instead of {want}).",
            ),
            "by value width": WrongAnswer(
                lambda q, k, v: softmax(q @ k.T / np.sqrt(v.shape[-1])) @ v,
                "you scale by the width of v. The scores are sums over the width of q and k: d = q.shape[-1].",
            ),
            "by keys": WrongAnswer(
                lambda q, k, v: softmax(q @ k.T / np.sqrt(len(k))) @ v,
                "you scale by the root of the number of keys, len(k). d is the width of a key: k.shape[-1].",
                mistake="S4",
            ),
            "by queries": WrongAnswer(
                lambda q, k, v: softmax(q @ k.T / np.sqrt(len(q))) @ v,
                "you scale by the root of the number of queries, len(q). d is the width of a query: q.shape[-1].",
                mistake="S4",
            ),
            "no softmax": WrongAnswer(
                {"softmax": ""},
                "the softmax is missing: your numbers are (Q·Kᵀ/√d)·V ({got} instead of {want}).",
                mistake="X6",
            ),
            "softmax first": WrongAnswer(
                lambda q, k, v: softmax(q @ k.T) / np.sqrt(q.shape[-1]) @ v,
                "you divide by √d after the softmax, so your outputs are too small ({got} instead of {want}) and too "
                "sharp. Scale the scores first.",
            ),
            "over queries": WrongAnswer(
                {"q @ k.T": "k @ q.T", "weights, v": "weights.T, v"},
                "your softmax runs over the queries: each column adds up to 1, not each row. It must run over the "
                "keys, axis -1.",
                mistake="X1",
            ),
            "keys for values": WrongAnswer(
                {"weights, v": "weights, k"},
                "the weights are multiplied with k. Keys are for finding, values for taking home: weights @ v.",
                mistake="P1",
            ),
            "only weights": WrongAnswer(
                {"weighted_sum(weights, v)": "weights"}, "these are the weights, {shape}. One step is left: times v."
            ),
            "softmax of output": WrongAnswer(
                {"softmax": "", "return weighted_sum(weights, v)": "return softmax(weighted_sum(weights, v))"},
                "you took the softmax after multiplying by v. Take it of the scores: softmax(Q·Kᵀ/√d), then times v.",
            ),
        },
    },
    hints={
        "weighted_sum": [
            "Row times matrix: one query's weights (M,) times v (M, e) is (e,).",
            "weighted_sum is a single `@`.",
        ],
        "attention": ["attention: scores, divided by np.sqrt(q.shape[-1]), softmax, weighted_sum."],
    },
    takeaway='This is the whole formula of “Attention is all you need”. `qkv steps "The cat sat"` prints its numbers.',
)
