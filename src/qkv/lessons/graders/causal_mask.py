"""The triangle, and where it acts."""

from typing import Any

import numpy as np

from ...attention import masks
from ...attention.steps import from_qkv, softmax
from ...words import Both
from ..exercises import causal_mask as solved
from ..grade import calls, furthest
from ..lesson import Lesson, Question, Wrong

Array = np.ndarray  # of numbers or of True and False
RNG = np.random.default_rng(7)
SIZES = [(3, 3), (2, 4), (1, 5), (5, 5), (3, 7)]


def right_mask(n: int, m: int) -> Array:
    return masks.causal().array(n, m)[0, 0].astype(np.float64)


def _given(n: int, m: int, d: int, e: int, size: float = 1.5) -> tuple[Array, ...]:
    q, k, v = (RNG.normal(size=shape) * size for shape in ((n, d), (m, d), (m, e)))
    return q, k, v, right_mask(n, m) > 0


GIVEN = [_given(4, 4, 8, 3, size=4.0), _given(4, 4, 4, 4), _given(3, 5, 2, 4), _given(5, 5, 6, 1)]


def right(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return from_qkv(q, k, v, mask).output


def inverted(n: int, m: int) -> Array:
    return ~(right_mask(n, m) > 0)


def strict(n: int, m: int) -> Array:
    return np.tril(np.ones((n, m), bool), m - n - 1)


def upper(n: int, m: int) -> Array:
    return np.triu(np.ones((n, m), bool), m - n)


def corner(n: int, m: int) -> Array:
    return np.tril(np.ones((n, m), bool))


def one_further(n: int, m: int) -> Array:
    return np.tril(np.ones((n, m), bool), m - n + 1)


def other_shift(n: int, m: int) -> Array:
    return np.tril(np.ones((n, m), bool), n - m)


def additive(n: int, m: int) -> Array:
    return np.where(right_mask(n, m) > 0, 0.0, -np.inf)


def _truth(answer: Any) -> bool:
    return np.asarray(answer.causal_mask(3, 3)).dtype == bool


def _scores(q: Array, k: Array) -> Array:
    return q @ k.T / np.sqrt(q.shape[-1])


def ignored(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(_scores(q, k)) @ v


def wrong_way(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return solved.softmax(np.where(mask, -np.inf, _scores(q, k))) @ v  # a row that sees nothing is NaN


def wrong_way_finite(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask, -1e9, _scores(q, k))) @ v  # such a row is the plain mean


def wrong_way_zeros(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask, -np.inf, _scores(q, k))) @ v  # such a row is 0: a softmax that looks out for it


def multiplied(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(_scores(q, k) * mask) @ v


def added(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(_scores(q, k) + mask) @ v


def afterwards(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return (softmax(_scores(q, k)) * mask) @ v


def inf_afterwards(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return np.where(mask, softmax(_scores(q, k)), -np.inf) @ v


def weak_fill(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask, _scores(q, k), -10.0)) @ v


def unscaled(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(np.where(mask, q @ k.T, -np.inf)) @ v


def times_inf(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(_scores(q, k) + (1 - mask) * -np.inf) @ v


LESSON = Lesson(
    questions=[
        *(calls("causal_mask", right_mask, n, m, names="n m") for n, m in SIZES),
        Question("causal_mask", "causal_mask(n=3, m=3).dtype == bool", _truth, lambda: True),
        *(calls("masked_attention", right, *given, names="q k v mask") for given in GIVEN),
    ],
    wrongs=[
        Wrong(
            "inverted",
            {"causal_mask": inverted},
            Both(
                "your mask is the right one turned into its opposite: True where it should be False. Here True means may attend (PyTorch's "
                "nn.MultiheadAttention has it the other way).",
                "你的掩码与正确的恰好相反：该 False 的地方是 True。这里 True 表示可以看（PyTorch 的 nn.MultiheadAttention 正好相反）。",
            ),
        ),
        Wrong(
            "upper",
            {"causal_mask": upper},
            Both(
                "your triangle points the other way: words see themselves and what comes after, never what came before. np.tril, not np.triu.",
                "三角形的方向反了：每个词看到自己和后面的词，看不到前面的。用 np.tril，不是 np.triu。",
            ),
        ),
        Wrong(
            "strict",
            {"causal_mask": strict},
            Both(
                "your diagonal is False: no word sees itself, and the first sees nothing at all (its softmax would be NaN). "
                "Key j is allowed for j ≤ i, not j < i.",
                "对角线是 False：词看不到自己，第一个词什么都看不到（softmax 会是 NaN）。允许的是 j ≤ i，不是 j < i。",
            ),
        ),
        Wrong(
            "one further",
            {"causal_mask": one_further},
            Both(
                "each word also sees the one after it: exactly the word it has to guess. The diagonal is one too far to the right.",
                "每个词还能看到后面一个词：那正是它要猜的词。对角线往右多移了一格。",
            ),
        ),
        Wrong(
            "corner",
            {"causal_mask": corner},
            Both(
                "right where n = m. With n = 2 queries of m = 4 words your triangle starts in the upper left corner, so the last query doesn't see the end. "
                "The queries are the last ones: shift by m − n (np.tril has k=).",
                "n = m 时是对的。n = 2 个查询、m = 4 个词时，你的三角形从左上角开始，最后一个查询看不到末尾。"
                "查询是最后几个词：要移动 m − n（np.tril 有参数 k=）。",
            ),
        ),
        Wrong(
            "other shift",
            {"causal_mask": other_shift},
            Both(
                "right where n = m; elsewhere you shifted the wrong way: k = m − n, not n − m.",
                "n = m 时是对的；其他情况移动的方向反了：k = m − n，不是 n − m。",
            ),
        ),
        Wrong(
            "additive",
            {"causal_mask": additive},
            Both(
                "you give 0 and −inf, a mask to be added. Asked for is True and False: True = may attend.",
                "你给出了 0 和 −inf，那是用来相加的掩码。这里要的是 True 和 False：True = 可以看。",
            ),
        ),
        Wrong(
            "numbers",
            {"causal_mask": right_mask},
            Both(
                "1 and 0 stand in the right places, but they are numbers. Asked for is True and False: ~mask, mask & other and x[mask] do "
                "something else with numbers, or fail. np.ones((n, m), bool), or .astype(bool) at the end.",
                "1 和 0 的位置都对，但它们是数。这里要的是 True 和 False：对数来说，~mask、mask & other 和 x[mask] 是另一回事，或者会出错。"
                "用 np.ones((n, m), bool)，或最后加 .astype(bool)。",
            ),
        ),
        Wrong(
            "ignored",
            {"masked_attention": ignored},
            Both(
                "the mask changes nothing: your numbers are those without one. (np.where and masked_fill give a new array; it has to be kept.)",
                "掩码没有起作用：你的数与没有掩码时一样。（np.where 和 masked_fill 返回新的数组，要接住它。）",
            ),
        ),
        *(
            Wrong(
                f"wrong way{how}",
                {"masked_attention": code},
                Both(
                    "you hide what may be seen and show what is hidden: np.where(mask, scores, −inf) keeps the scores where mask is True. "
                    "(A row whose scores are all −inf becomes NaN.)",
                    "你遮住了可以看的，露出了该遮的：np.where(mask, scores, −inf) 在 mask 为 True 时保留分数。（分数全是 −inf 的行会变成 NaN。）",
                ),
            )
            for how, code in (("", wrong_way), (", finite", wrong_way_finite), (", zeros", wrong_way_zeros))
        ),
        Wrong(
            "multiplied",
            {"masked_attention": multiplied},
            Both(
                "your hidden scores are 0 (times the mask, or filled with 0 or −1e-9), and e⁰ = 1: they still get a share ({got} instead of {want}). They must become −inf.",
                "被遮的分数成了 0（乘以掩码，或填了 0 或 −1e-9），而 e⁰ = 1：它们仍分到份额（{got}，应为 {want}）。应变成 −inf。",
            ),
            furthest,
        ),
        Wrong(
            "added",
            {"masked_attention": added},
            Both(
                "adding True and False only adds 1 or 0 to the scores: nothing is hidden. np.where(mask, scores, −inf) hides.",
                "加上 True 和 False 只是给分数加 1 或 0：什么也没遮住。用 np.where(mask, scores, −inf)。",
            ),
        ),
        Wrong(
            "afterwards",
            {"masked_attention": afterwards},
            Both(
                "you mask after the softmax: the hidden words have taken their share already, and your rows no longer add up to 1 "
                "({got} instead of {want}). Mask the scores, before the softmax.",
                "你在 softmax 之后才遮：被遮的词已经分走了份额，每行加起来不再是 1（{got}，应为 {want}）。要在 softmax 之前遮分数。",
            ),
            furthest,
        ),
        Wrong(
            "inf afterwards",
            {"masked_attention": inf_afterwards},
            Both(
                "−inf was put into the weights, after the softmax, so the sum is −inf or NaN. It belongs into the scores, before the softmax.",
                "−inf 放进了 softmax 之后的权重里，求和就成了 −inf 或 NaN。它应放进 softmax 之前的分数里。",
            ),
        ),
        Wrong(
            "weak fill",
            {"masked_attention": weak_fill},
            Both(
                "hidden scores become −10. Where real scores are as low, the hidden ones shine through ({got} instead of {want}). Use −np.inf.",
                "被遮的分数成了 −10。真实的分数也这么低时，被遮的词就会透出来（{got}，应为 {want}）。请用 −np.inf。",
            ),
            furthest,
        ),
        Wrong(
            "unscaled",
            {"masked_attention": unscaled},
            Both("the mask is right; the scores aren't divided by √d.", "掩码是对的，但分数没有除以 √d。"),
        ),
        Wrong(
            "times inf",
            {"masked_attention": times_inf},
            Both(
                "0 × −inf is NaN, so the mask spoils the pairs that are allowed too. np.where(mask, scores, −np.inf) has no such product.",
                "0 × −inf 是 NaN，所以连允许的对也被破坏了。np.where(mask, scores, −np.inf) 没有这个乘法。",
            ),
        ),
    ],
    hints=[
        Both(
            "Query i of N stands at word i + M − N. It may see key j if j ≤ that.",
            "N 个查询里的第 i 个位于第 i + M − N 个词。它可以看满足 j ≤ 该位置的键 j。",
        ),
        Both(
            "Either compare `np.arange(m)` with a column of positions, or `np.tril(np.ones((n, m), bool), k=…)`.",
            "可以用 `np.arange(m)` 与一列位置比较，也可以用 `np.tril(np.ones((n, m), bool), k=…)`。",
        ),
        Both(
            "`np.where(mask, scores, -np.inf)` before the softmax.",
            "softmax 之前：`np.where(mask, scores, -np.inf)`。",
        ),
        Both(
            "causal_mask: `np.arange(m) <= np.arange(m - n, m)[:, None]`",
            "causal_mask 可以写成 `np.arange(m) <= np.arange(m - n, m)[:, None]`",
        ),
    ],
    after=Both(
        "With this mask one pass over a text trains every position at once, each on its own past. `qkv masks causal` draws it.",
        "有了这个掩码，一遍就能同时训练每个位置，各自只看自己的过去。`qkv masks causal` 会把它画出来。",
    ),
)
