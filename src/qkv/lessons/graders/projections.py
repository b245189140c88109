"""Self-attention from words and three matrices."""

import numpy as np

from ...attention.steps import Array, softmax, steps
from ...words import Both
from ..exercises.projections import attention
from ..grade import calls, furthest
from ..lesson import Lesson, Wrong

RNG = np.random.default_rng(6)


def _given(n: int, c: int, d: int, e: int) -> tuple[Array, ...]:
    return RNG.normal(size=(n, c)), *(RNG.normal(size=(c, wide)) for wide in (d, d, e))


GIVEN = [_given(5, 4, 4, 4), _given(3, 6, 2, 5), _given(4, 4, 4, 4), _given(2, 3, 7, 1), _given(1, 2, 3, 2)]


def right(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return steps(x, w_q, w_k, w_v).output


def without(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return attention(x, x, x)


def values_raw(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return attention(x @ w_q, x @ w_k, x)


def keys_raw(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return attention(x @ w_q, x, x @ w_v)


def values_by_w_k(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return attention(x @ w_q, x @ w_k, x @ w_k)


def keys_by_w_q(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return attention(x @ w_q, x @ w_q, x @ w_v)


def swapped(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return attention(x @ w_k, x @ w_q, x @ w_v)


def chained(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    q = x @ w_q
    k = q @ w_k
    return attention(q, k, k @ w_v)


def transposed(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return attention(x @ w_q.T, x @ w_k.T, x @ w_v.T)


def in_front(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return attention(w_q @ x, w_k @ x, w_v @ x)


def _with_scale(x: Array, w_q: Array, w_k: Array, w_v: Array, by: float) -> Array:
    return softmax((x @ w_q) @ (x @ w_k).T / by) @ (x @ w_v)


def by_word_width(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return _with_scale(x, w_q, w_k, w_v, x.shape[-1] ** 0.5)


def unscaled(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return _with_scale(x, w_q, w_k, w_v, 1.0)


def twice_scaled(x: Array, w_q: Array, w_k: Array, w_v: Array) -> Array:
    return _with_scale(x, w_q, w_k, w_v, float(w_q.shape[-1]))


LESSON = Lesson(
    questions=[calls("self_attention", right, *given, names="x w_q w_k w_v") for given in GIVEN],
    wrongs=[
        Wrong(
            "without",
            {"self_attention": without},
            Both(
                "your numbers are those of x attending to itself without any matrix. Make q = x @ w_q, and k and v likewise.",
                "你的数是 x 不经过任何矩阵、直接对自己做注意力的结果。先算 q = x @ w_q，k 和 v 同理。",
            ),
        ),
        Wrong(
            "values raw",
            {"self_attention": values_raw},
            Both(
                "the values are x itself: w_v isn't used.",
                "值直接用了 x：没有用到 w_v。",
            ),
        ),
        Wrong(
            "keys raw",
            {"self_attention": keys_raw},
            Both("the keys are x itself: w_k isn't used.", "键直接用了 x：没有用到 w_k。"),
        ),
        Wrong(
            "values by w_k",
            {"self_attention": values_by_w_k},
            Both(
                "your values were made with w_k: a slip of copying that published programs have too. They need w_v.",
                "你的值是用 w_k 算的：复制粘贴时常见的笔误，公开的程序里也有。应使用 w_v。",
            ),
        ),
        Wrong(
            "keys by w_q",
            {"self_attention": keys_by_w_q},
            Both(
                "your keys were made with w_q. Then the scores are symmetric: whom I look for looks for me. Keys need w_k.",
                "你的键是用 w_q 算的。这样分数是对称的：我找谁，谁就找我。键应使用 w_k。",
            ),
        ),
        Wrong(
            "swapped",
            {"self_attention": swapped},
            Both(
                "w_q and w_k changed places: your scores are the right ones transposed, so each word is found by those it should look for.",
                "w_q 和 w_k 用反了：你的分数是正确分数的转置，本该由它去找的词反过来找它。",
            ),
        ),
        Wrong(
            "chained",
            {"self_attention": chained},
            Both(
                "k is made from q, and v from k. All three come from x: k = x @ w_k, v = x @ w_v.",
                "k 是从 q 算的，v 是从 k 算的。三者都应来自 x：k = x @ w_k，v = x @ w_v。",
            ),
        ),
        Wrong(
            "transposed",
            {"self_attention": transposed},
            Both(
                "you multiply with the transposed matrices. That only fits where they happen to be square. A matrix here is (C, d) and stands on the right: "
                "x @ w_q. (torch.nn.Linear keeps its weight transposed, hence the .T one sees elsewhere.)",
                "你乘的是转置后的矩阵，只有方阵时才碰巧合得上。这里的矩阵是 (C, d)，放在右边：x @ w_q。"
                "（torch.nn.Linear 存的权重是转置的，所以别处会看到 .T。）",
            ),
        ),
        Wrong(
            "in front",
            {"self_attention": in_front},
            Both(
                "the matrix stands in front: w_q @ x. Words are rows here, so it stands behind: x @ w_q, (N, C)·(C, d) → (N, d).",
                "矩阵放到了前面：w_q @ x。这里词是行，所以矩阵放在后面：x @ w_q，(N, C)·(C, d) → (N, d)。",
            ),
        ),
        Wrong(
            "by word width",
            {"self_attention": by_word_width},
            Both(
                "you scale by √C, the width of x ({got} instead of {want}). The dot products run over the width of q: d = w_q.shape[1].",
                "你用 x 的宽度 √C 缩放了（{got}，应为 {want}）。点积是沿 q 的宽度求和的：d = w_q.shape[1]。",
            ),
            furthest,
        ),
        Wrong(
            "unscaled",
            {"self_attention": unscaled},
            Both(
                "your numbers are those without the scale ({got} instead of {want}): divide the scores by √d, or use `attention`, which does.",
                "你的数没有缩放（{got}，应为 {want}）：分数要除以 √d，或直接用给出的 attention。",
            ),
            furthest,
        ),
        Wrong(
            "twice scaled",
            {"self_attention": twice_scaled},
            Both(
                "your scores are divided by √d twice, which is d: `attention` scales already ({got} instead of {want}).",
                "你的分数除以了两次 √d，也就是 d：attention 里已经缩放过了（{got}，应为 {want}）。",
            ),
            furthest,
        ),
    ],
    hints=[
        Both(
            "All three come from x, each by one `@` with its own matrix.", "三者都来自 x，各用一个 `@` 乘以自己的矩阵。"
        ),
        Both("`attention(q, k, v)` is given, and does the scaling too.", "attention(q, k, v) 已给出，缩放也在里面。"),
        Both("`return attention(x @ w_q, …, …)`", "`return attention(x @ w_q, …, …)`"),
    ],
    after=Both(
        "What a model learns in attention is only these matrices. The formula between them has nothing to learn.",
        "模型在注意力里学的只有这些矩阵，它们之间的公式没有可学的东西。",
    ),
)
