"""Self-attention from words and three matrices."""

import numpy as np

from ...attention.oracle import Array, softmax, steps
from ...i18n import Message
from ..lesson import Lesson, Wrong
from ..questions import calls

RNG = np.random.default_rng(6)


def _given(n: int, c: int, d: int, e: int) -> tuple[Array, ...]:
    return RNG.normal(size=(n, c)), *(RNG.normal(size=(c, wide)) for wide in (d, d, e))


GIVEN = [_given(5, 4, 4, 4), _given(3, 6, 2, 5), _given(4, 4, 4, 4), _given(2, 3, 7, 1), _given(1, 2, 3, 2)]


def right(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return steps(x, w_q, w_k, w_v).output


def _with_scale(x: Array, w_q: Array, w_k: Array, w_v: Array, by: float) -> Array:
    return softmax((x @ w_q) @ (x @ w_k).T / by) @ (x @ w_v)


LESSON = Lesson(
    questions=[calls("self_attention", right, *given, names="x w_q w_k w_v") for given in GIVEN],
    wrongs={
        "self_attention": [
            Wrong(
                "without",
                {"x @ w_q": "x", "x @ w_k": "x", "x @ w_v": "x"},
                "your numbers are those of x attending to itself without any matrix. Make q = x @ w_q, and k and v "
                "likewise.",
                mistake="P3",
            ),
            Wrong("values raw", {"x @ w_v": "x"}, "the values are x itself: w_v isn't used.", mistake="P3"),
            Wrong("keys raw", {"x @ w_k": "x"}, "the keys are x itself: w_k isn't used.", mistake="P3"),
            Wrong(
                "values by w_k",
                {"w_v": "w_k"},
                "your values were made with w_k: a slip of copying that published programs have too. They need w_v.",
                mistake="P1",
            ),
            Wrong(
                "keys by w_q",
                {"w_k": "w_q"},
                "your keys were made with w_q. Then the scores are symmetric: whom I look for looks for me. Keys need "
                "w_k.",
                mistake="P1",
            ),
            Wrong(
                "swapped",
                {"w_q": "w_k", "w_k": "w_q"},
                "w_q and w_k changed places: your scores are the right ones transposed, so each word is found by "
                "those it should look for.",
            ),
            Wrong(
                "chained",
                {"x @ w_k": "x @ w_q @ w_k", "x @ w_v": "x @ w_q @ w_k @ w_v"},
                "k is made from q, and v from k. All three come from x: k = x @ w_k, v = x @ w_v.",
            ),
            Wrong(
                "transposed",
                {"w_q": "w_q.T", "w_k": "w_k.T", "w_v": "w_v.T"},
                "you multiply with the transposed matrices. That only fits where they happen to be square. A matrix "
                "here is (C, d) and stands on the right: x @ w_q. (torch.nn.Linear keeps its weight transposed, hence "
                "the .T one sees elsewhere.)",
            ),
            Wrong(
                "in front",
                {"x @ w_q": "w_q @ x", "x @ w_k": "w_k @ x", "x @ w_v": "w_v @ x"},
                "the matrix stands in front: w_q @ x. Words are rows here, so it stands behind: x @ w_q, (N, C)·(C, "
                "d) → (N, d).",
            ),
            Wrong(
                "by word width",
                lambda x, w_q, w_k, w_v: _with_scale(x, w_q, w_k, w_v, x.shape[-1] ** 0.5),
                "you scale by √C, the width of x ({got} instead of {want}). The dot products run over the width of q: "
                "d = w_q.shape[1].",
                mistake="S4",
            ),
            Wrong(
                "unscaled",
                lambda x, w_q, w_k, w_v: _with_scale(x, w_q, w_k, w_v, 1.0),
                "your numbers are those without the scale ({got} instead of {want}): divide the scores by √d, or use "
                "`attention`, which does.",
                mistake="S2",
            ),
            Wrong(
                "twice scaled",
                lambda x, w_q, w_k, w_v: _with_scale(x, w_q, w_k, w_v, float(w_q.shape[-1])),
                "your scores are divided by √d twice, which is d: `attention` scales already ({got} instead of {want}).",
            ),
        ],
    },
    hints={
        "self_attention": [
            Message("All three come from x, each by one `@` with its own matrix."),
            Message("`attention(q, k, v)` is given, and does the scaling too."),
            Message("`return attention(x @ w_q, …, …)`"),
        ]
    },
    after=Message(
        "What a model learns in attention is only these matrices. The formula between them has nothing to learn."
    ),
)
