"""Scaling: why softmax(QKᵀ/√d)V divides by √d.

If q and k hold d independent numbers with mean 0 and variance 1, each product qᵢkᵢ has variance 1, and the
sum of d of them has variance d: scores spread like N(0, d), typically ±√d. At d = 64 that is ±8, and e⁸ is
3,000 times e⁰: the softmax gives nearly everything to one key, and its gradient dies. Divided by √d, the
scores have variance 1 at every width:

    scaled = Q·Kᵀ / √d          d: how many numbers a query has, not how many queries or keys there are

Measured with 8 keys: the largest weight is 0.88 on average at d = 64 without scaling, 0.36 with it.
----
缩放：softmax(QKᵀ/√d)V 为什么要除以 √d。

如果 q 和 k 的 d 个数相互独立、均值 0、方差 1，那么每个乘积 qᵢkᵢ 的方差是 1，d 个之和的方差就是 d：分数近
似服从 N(0, d)，典型大小是 ±√d。d = 64 时是 ±8，而 e⁸ 是 e⁰ 的约 3000 倍：softmax 几乎把全部权重给了一个键，梯
度也随之消失。除以 √d 之后，不论宽度多大，分数的方差都是 1：

    scaled = Q·Kᵀ / √d          d 是一个查询有几个数，不是查询或键的个数

8 个键时的实测：d = 64 不缩放，最大权重平均为 0.88；缩放后为 0.36。
"""

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    """Given: each row becomes shares that add up to 1.
    ----
    已给出：把每一行变成加起来为 1 的份额。
    """
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def scaled_scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """q (N, d), k (M, d) → Q·Kᵀ/√d, (N, M).
    ----
    q (N, d)，k (M, d) → Q·Kᵀ/√d，(N, M)。
    ----

    >>> scaled_scores(np.array([[1.0, 1.0, 0.0, 0.0]]), np.array([[2.0, 4.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])).tolist()
    [[3.0, 0.5]]
    """
    # hole
    return q @ k.T / np.sqrt(q.shape[-1])
    # end


def largest_weights(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """The largest weight of each query's softmax, averaged over the queries: (without scaling, with scaling).

    Measure what scaling does: softmax of the plain scores, softmax of the scaled ones, of each the maximum
    per row, and its mean.
    ----
    每个查询的 softmax 中最大的权重，再对所有查询取平均：（不缩放，缩放）。

    请测一测缩放的作用：分别对原始分数和缩放后的分数做 softmax，取每行的最大值，再求平均。
    ----

    >>> q, k = np.array([[1.0, 1.0, 0.0, 0.0]]), np.array([[2.0, 4.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])
    >>> plain, scaled = largest_weights(q, k)
    >>> round(float(plain), 3), round(float(scaled), 3)
    (0.993, 0.924)
    """
    # hole
    plain, scaled = softmax(q @ k.T), softmax(scaled_scores(q, k))
    return plain.max(-1).mean(), scaled.max(-1).mean()
    # end
