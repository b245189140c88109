"""Self-attention of word vectors with three matrices."""

import numpy as np

from ...attention.oracle import Array, softmax, steps
from ..lesson import Lesson, WrongAnswer
from ..questions import calls

RNG = np.random.default_rng(6)


def _inputs(n: int, c: int, d: int, e: int) -> tuple[Array, ...]:
    return RNG.normal(size=(n, c)), *(RNG.normal(size=(c, wide)) for wide in (d, d, e))


INPUTS = [_inputs(5, 4, 4, 4), _inputs(3, 6, 2, 5), _inputs(4, 4, 4, 4), _inputs(2, 3, 7, 1), _inputs(1, 2, 3, 2)]


def right(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return steps(x, w_q, w_k, w_v).output


def _with_scale(x: Array, w_q: Array, w_k: Array, w_v: Array, by: float) -> Array:
    return softmax((x @ w_q) @ (x @ w_k).T / by) @ (x @ w_v)


LESSON = Lesson(
    questions=[calls("self_attention", right, *inputs, names="x w_q w_k w_v") for inputs in INPUTS],
    wrong_answers={
        "self_attention": {
            "without": WrongAnswer(
                {"x @ w_q": "x", "x @ w_k": "x", "x @ w_v": "x"},
                "your numbers are those of x attending to itself without any matrix. Compute q = x @ w_q, also k and "
                "v.",
                mistake="P3",
            ),
            "values raw": WrongAnswer({"x @ w_v": "x"}, "the values are x itself: w_v isn't used.", mistake="P3"),
            "keys raw": WrongAnswer({"x @ w_k": "x"}, "the keys are x itself: w_k isn't used.", mistake="P3"),
            "values by w_k": WrongAnswer(
                {"w_v": "w_k"},
                "your values were made with w_k: a slip of copying that published programs have too. They need w_v.",
                mistake="P1",
            ),
            "keys by w_q": WrongAnswer(
                {"w_k": "w_q"},
                "your keys were made with w_q. Then the scores are symmetric: i scores j as j scores i. Keys need w_k.",
                mistake="P1",
            ),
            "swapped": WrongAnswer(
                {"w_q": "w_k", "w_k": "w_q"},
                "w_q and w_k are swapped, so your scores are transposed: row i belongs to query i.",
            ),
            "chained": WrongAnswer(
                {"x @ w_k": "x @ w_q @ w_k", "x @ w_v": "x @ w_q @ w_k @ w_v"},
                "k is made from q, and v from k. All three come from x: k = x @ w_k, v = x @ w_v.",
            ),
            "transposed": WrongAnswer(
                {"w_q": "w_q.T", "w_k": "w_k.T", "w_v": "w_v.T"},
                "you multiply with the transposed matrices. That only fits where they happen to be square. A matrix "
                "here is (C, d) and on the right: x @ w_q. (torch.nn.Linear stores its weight transposed.)",
            ),
            "in front": WrongAnswer(
                {"x @ w_q": "w_q @ x", "x @ w_k": "w_k @ x", "x @ w_v": "w_v @ x"},
                "the matrix comes first: w_q @ x. Words are rows here, so it comes second: x @ w_q, (N, C)·(C, d) → "
                "(N, d).",
            ),
            "by word width": WrongAnswer(
                lambda x, w_q, w_k, w_v: _with_scale(x, w_q, w_k, w_v, x.shape[-1] ** 0.5),
                "you scale by √C, the width of x ({got} instead of {want}). The dot products run over the width of q: "
                "d = w_q.shape[1].",
                mistake="S4",
            ),
            "unscaled": WrongAnswer(
                lambda x, w_q, w_k, w_v: _with_scale(x, w_q, w_k, w_v, 1.0),
                "your numbers are those without the scale ({got} instead of {want}): divide the scores by √d, or use "
                "`attention`, which does.",
                mistake="S2",
            ),
            "twice scaled": WrongAnswer(
                lambda x, w_q, w_k, w_v: _with_scale(x, w_q, w_k, w_v, float(w_q.shape[-1])),
                "your scores are divided by √d twice, which is d: `attention` scales already ({got} instead of "
                "{want}).",
            ),
        },
    },
    hints={
        "self_attention": [
            "All three come from x, each by one `@` with its own matrix.",
            "`attention(q, k, v)` is given, and does the scaling too.",
            "`return attention(x @ w_q, …, …)`",
        ],
    },
    takeaway="What a model learns in attention is only these matrices. The formula between them has nothing to learn.",
)
