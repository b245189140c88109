"""Padding masks of batches with different and with equal sizes, and attention with them."""

import numpy as np

from ...attention import masks
from ..lesson import Lesson, WrongAnswer
from ..questions import INVERTED_MASK, attention_output, calls

Array = np.ndarray  # of numbers or of True and False
RNG = np.random.default_rng(8)
LENGTHS = [(np.array([3, 2]), 4), (np.array([5, 1, 3]), 5), (np.array([2, 4, 1, 3]), 4), (np.array([6]), 7)]


def right_mask(lengths: Array, m: int) -> Array:
    return masks.padding([int(length) for length in lengths]).array(1, m, batch=len(lengths))[:, 0].astype(np.float64)


def _inputs(lengths: list[int], n: int, m: int, d: int, e: int) -> tuple[Array, ...]:
    b = len(lengths)
    q, k, v = (RNG.normal(size=shape) * 1.5 for shape in ((b, n, d), (b, m, d), (b, m, e)))
    return q, k, v, right_mask(np.array(lengths), m) > 0


INPUTS = [_inputs([5, 2], 3, 5, 4, 6), _inputs([1, 3, 2], 3, 3, 3, 3), _inputs([4, 1], 5, 6, 2, 1)]


LESSON = Lesson(
    questions=[
        *(calls("padding_mask", right_mask, lengths, m, names="lengths m") for lengths, m in LENGTHS),
        *(calls("batched_attention", attention_output, *inputs, names="q k v mask") for inputs in INPUTS),
    ],
    wrong_answers={
        "padding_mask": {
            "inverted": WrongAnswer(
                lambda lengths, m: (np.arange(m) >= lengths[:, None])[:, None],
                "your mask is True on the padding. Here True means may attend: the words.",
                mistake="M1",
            ),
            "one more": WrongAnswer(
                lambda lengths, m: (np.arange(m) <= lengths[:, None])[:, None],
                "one padding token too many is allowed: a sentence of 3 words has the places 0, 1 and 2, so place < "
                "length, not ≤.",
            ),
            "one less": WrongAnswer(
                lambda lengths, m: (np.arange(m) < lengths[:, None] - 1)[:, None],
                "the last word of each sentence is hidden: places 0 … length − 1 are words, so place < length.",
            ),
            "flat": WrongAnswer(
                lambda lengths, m: np.arange(m) < lengths[:, None],
                "your mask is {shape}; NumPy would line it up with queries and keys, and sentence 0's padding would "
                "hide query 0's keys. An axis of 1 for the queries makes it {right}: [:, None, :].",
            ),
            "queries": WrongAnswer(
                lambda lengths, m: (np.arange(m) < lengths[:, None])[:, :, None],
                "your mask is {shape}: the words stand on the axis of the queries, so padded queries would be hidden "
                "and padded keys attended to. It has to be {right}.",
                mistake="M11",
            ),
            "left": WrongAnswer(
                lambda lengths, m: (np.arange(m) >= m - lengths[:, None])[:, None],
                "your padding stands on the left. Here the words come first: sentence places 0 … length − 1 are True.",
            ),
            "longest": WrongAnswer(
                lambda lengths, m: np.repeat((np.arange(m) < lengths.max())[None, None], len(lengths), 0),
                "all sentences got the mask of the longest. Compare np.arange(m) with each length: lengths[:, None].",
            ),
        },
        "batched_attention": {
            "ignored": WrongAnswer(
                {"np.where(mask, scores, -np.inf)": "scores"},
                "the mask isn't used: padding gets its share.",
                mistake="M3",
            ),
            "zero keys": WrongAnswer(
                {"np.where(mask, scores, -np.inf)": "scores * mask"},
                "the scores of the padding are 0 (you set its keys to 0, or multiplied by the mask), and e⁰ = 1 is a "
                "share like any other ({got} instead of {want}). They must be −inf: np.where(mask, scores, −np.inf).",
                mistake="M8",
            ),
            "zero values": WrongAnswer(
                {"np.where(mask, scores, -np.inf)": "scores", "@ v": "@ (v * mask.swapaxes(-1, -2))"},
                "you set the padded values to 0. They add nothing, but their weights are still taken from the words: "
                "the outputs are too small ({got} instead of {want}). Hide the scores instead.",
            ),
            **INVERTED_MASK,
            "first sentence": WrongAnswer(
                {"(mask,": "(mask[:1],"},
                "every sentence is masked like the first one: the first sentence is right, the second isn't.",
            ),
            "on queries": WrongAnswer(
                {
                    "softmax": "np.nan_to_num(softmax",
                    "(mask, scores, -np.inf)": "(mask.swapaxes(-1, -2), scores, -np.inf))",
                },
                "the mask acts on the queries (rows) instead of the keys (columns): use it as it is, (B, 1, M).",
                mistake="M11",
            ),
            "dot T": WrongAnswer(
                {"k.swapaxes(-1, -2)": "k.T"},
                "k.T reverses all three axes, the batch too: (B, M, d) becomes (d, M, B). Swap only the last two: "
                "k.swapaxes(-1, -2).",
                mistake="S7",
            ),
            "unscaled": WrongAnswer(
                {" / np.sqrt(q.shape[-1])": ""}, "the mask is right; the scores aren't divided by √d.", mistake="S2"
            ),
        },
    },
    hints={
        "padding_mask": [
            "`np.arange(m)` are the places, (m,). `lengths[:, None]` is a column, (B, 1). Comparing the two gives (B, "
            "m).",
            "`[:, None, :]` puts an axis of length 1 in the middle.",
        ],
        "batched_attention": [
            "In a batch keys are transposed by `k.swapaxes(-1, -2)`; the rest is as in the last exercise.",
            "`scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])`, then np.where, softmax, `@ v`.",
        ],
    },
    takeaway="A sentence now gives the same numbers alone and in any batch. Without the mask a model trains on "
    "padding, and no error is raised.",
)
