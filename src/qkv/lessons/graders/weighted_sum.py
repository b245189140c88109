"""Weights times values, and with it all of attention."""

import numpy as np

from ...attention.steps import Array, from_qkv, softmax
from ...words import Both
from ..grade import calls, furthest, shapes
from ..lesson import Lesson, Wrong

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


def right(q: Array, k: Array, v: Array) -> Array:
    return from_qkv(q, k, v).output


def turned(weights: Array, v: Array) -> Array:
    return weights.T @ v


def mean_of_values(weights: Array, v: Array) -> Array:
    return np.repeat(v.mean(0, keepdims=True), len(weights), 0)


def divided(weights: Array, v: Array) -> Array:
    return weights @ v / len(v)


def strongest(weights: Array, v: Array) -> Array:
    return v[weights.argmax(-1)]


def other_side(weights: Array, v: Array) -> Array:
    return v.T @ weights.T


def elementwise(weights: Array, v: Array) -> Array:
    return weights * v


def _scores(q: Array, k: Array) -> Array:
    return q @ k.T / np.sqrt(q.shape[-1])


def unscaled(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.T) @ v


def by_d(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.T / q.shape[-1]) @ v


def by_value_width(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.T / np.sqrt(v.shape[-1])) @ v


def by_keys(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.T / np.sqrt(len(k))) @ v


def by_queries(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.T / np.sqrt(len(q))) @ v


def no_softmax(q: Array, k: Array, v: Array) -> Array:
    return _scores(q, k) @ v


def softmax_first(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.T) / np.sqrt(q.shape[-1]) @ v


def over_queries(q: Array, k: Array, v: Array) -> Array:
    return softmax(_scores(q, k).T).T @ v


def keys_for_values(q: Array, k: Array, v: Array) -> Array:
    return softmax(_scores(q, k)) @ k


def only_weights(q: Array, k: Array, v: Array) -> Array:
    return softmax(_scores(q, k))


def softmax_of_output(q: Array, k: Array, v: Array) -> Array:
    return softmax(_scores(q, k) @ v)


LESSON = Lesson(
    questions=[
        *(calls("weighted_sum", right_sum, *pair, names="weights v") for pair in MIXES),
        *(calls("attention", right, *three, names="q k v") for three in TRIPLES),
    ],
    wrongs=[
        Wrong(
            "turned",
            {"weighted_sum": turned},
            Both(
                "you multiply the transposed weights: each key then adds up what queries gave it. Row i of the weights belongs to query i, so "
                "weights @ v, without .T.",
                "你乘的是转置后的权重：变成了每个键去累加各查询给它的份额。权重的第 i 行属于查询 i，所以是 weights @ v，不要 .T。",
            ),
        ),
        Wrong(
            "mean of values",
            {"weighted_sum": mean_of_values},
            Both(
                "every query gets the plain mean of the values: the weights aren't used.",
                "每个查询都得到值的普通平均：没有用到权重。",
            ),
        ),
        Wrong(
            "divided",
            {"weighted_sum": divided},
            Both(
                "your numbers are the right ones divided by the number of keys ({got} instead of {want}). The weights add up to 1 already: "
                "their sum is a mean, nothing is left to divide.",
                "你的数是正确结果除以键的个数（{got}，应为 {want}）。权重加起来已经是 1，加权和本身就是平均，不用再除。",
            ),
            furthest,
        ),
        Wrong(
            "strongest",
            {"weighted_sum": strongest},
            Both(
                "each query takes the value of its strongest key alone. Softmax was meant to be soft: all values, each times its weight.",
                "每个查询只拿了权重最大的键的值。softmax 是“软”的：所有的值都要，各乘以权重。",
            ),
        ),
        Wrong(
            "other side",
            {"weighted_sum": other_side},
            Both(
                "your output is {shape}, turned over: the outputs stand in columns. Put the weights in front: weights @ v is {right}.",
                "你的输出是 {shape}，行列颠倒了：输出成了列。把权重放在前面：weights @ v 是 {right}。",
            ),
            shapes,
        ),
        Wrong(
            "elementwise",
            {"weighted_sum": elementwise},
            Both(
                "weights * v multiplies number by number and adds nothing up. Each output is a sum over all values: weights @ v.",
                "weights * v 只是逐个相乘，没有求和。每个输出是对所有值的求和：weights @ v。",
            ),
        ),
        Wrong(
            "unscaled",
            {"attention": unscaled},
            Both(
                "your numbers are those of attention without the scale ({got} instead of {want}): divide the scores by √d before the softmax.",
                "你的数是没有缩放的注意力（{got}，应为 {want}）：softmax 之前分数要除以 √d。",
            ),
            furthest,
        ),
        Wrong(
            "by d",
            {"attention": by_d},
            Both(
                "your scores are divided by d, not by √d: the weights come out too even ({got} instead of {want}).",
                "你的分数除以了 d 而不是 √d：权重过于平均（{got}，应为 {want}）。",
            ),
            furthest,
        ),
        Wrong(
            "by value width",
            {"attention": by_value_width},
            Both(
                "you scale by the width of v. The scores are sums over the width of q and k: d = q.shape[-1].",
                "你用 v 的宽度缩放了。分数是沿 q 和 k 的宽度求和的：d = q.shape[-1]。",
            ),
        ),
        Wrong(
            "by keys",
            {"attention": by_keys},
            Both(
                "you scale by the root of the number of keys, len(k). d is how many numbers a key has: k.shape[-1].",
                "你用键的个数 len(k) 的平方根缩放了。d 是一个键里有几个数：k.shape[-1]。",
            ),
        ),
        Wrong(
            "by queries",
            {"attention": by_queries},
            Both(
                "you scale by the root of the number of queries, len(q). d is how many numbers a query has: q.shape[-1].",
                "你用查询的个数 len(q) 的平方根缩放了。d 是一个查询里有几个数：q.shape[-1]。",
            ),
        ),
        Wrong(
            "no softmax",
            {"attention": no_softmax},
            Both(
                "the softmax is missing: your numbers are (Q·Kᵀ/√d)·V, and grow with the scores ({got} instead of {want}).",
                "少了 softmax：你的数是 (Q·Kᵀ/√d)·V，会随分数变大（{got}，应为 {want}）。",
            ),
            furthest,
        ),
        Wrong(
            "softmax first",
            {"attention": softmax_first},
            Both(
                "you divide by √d after the softmax, so your outputs are too small ({got} instead of {want}) and too sharp. Scale the scores first.",
                "你在 softmax 之后才除以 √d，所以输出太小（{got}，应为 {want}），权重也太尖锐。要先缩放分数。",
            ),
            furthest,
        ),
        Wrong(
            "over queries",
            {"attention": over_queries},
            Both(
                "your softmax runs over the queries: each column adds up to 1, not each row. It must run over the keys, the last axis.",
                "你的 softmax 沿查询方向做了：每一列加起来是 1，而不是每一行。应沿键，即最后一个轴。",
            ),
        ),
        Wrong(
            "keys for values",
            {"attention": keys_for_values},
            Both(
                "the weights are multiplied with k. Keys are for finding, values for taking home: weights @ v.",
                "权重乘的是 k。键用来查找，值才是带回去的内容：weights @ v。",
            ),
        ),
        Wrong(
            "only weights",
            {"attention": only_weights},
            Both(
                "these are the weights, {shape}. One step is left: times v.",
                "这是权重，{shape}。还差一步：乘以 v。",
            ),
            shapes,
        ),
        Wrong(
            "softmax of output",
            {"attention": softmax_of_output},
            Both(
                "you took the softmax after multiplying with v. It belongs on the scores: softmax(Q·Kᵀ/√d), then times v.",
                "你在乘以 v 之后才做 softmax。它应作用在分数上：先 softmax(Q·Kᵀ/√d)，再乘以 v。",
            ),
        ),
    ],
    hints=[
        Both(
            "Row times matrix: one query's weights (M,) times v (M, e) is (e,).",
            "行乘矩阵：一个查询的权重 (M,) 乘以 v (M, e) 得到 (e,)。",
        ),
        Both("weighted_sum is a single `@`.", "weighted_sum 只要一个 `@`。"),
        Both(
            "attention: scores, divided by np.sqrt(q.shape[-1]), softmax, weighted_sum.",
            "attention：分数，除以 np.sqrt(q.shape[-1])，softmax，weighted_sum。",
        ),
    ],
    after=Both(
        'This is the formula of “Attention is all you need”, complete. `qkv steps "The cat sat"` prints every number of it.',
        '这就是“Attention is all you need”的公式，完整的。`qkv steps "我 爱 北京"` 会打印其中的每一个数。',
    ),
)
