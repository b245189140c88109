"""The weighted sum: what a query takes home.

Softmax gave every query a row of weights, one per key. Its output is the values, each times its weight,
added up:

    outputᵢ = Σⱼ weightsᵢⱼ · vⱼ          all at once: weights·V

The output is as wide as the values, and lies between them: with weights [1, 0] it is the first value, with
[0.5, 0.5] halfway. With this last step you have all of attention:  softmax(Q·Kᵀ/√d)·V.

N queries, M keys and values, d the width of q and k, e the width of v (often the same, not always).
----
加权和：查询最后得到什么。

softmax 给每个查询一行权重，每个键一个。查询的输出就是各个值乘以自己的权重再相加：

    outputᵢ = Σⱼ weightsᵢⱼ · vⱼ          一次全部算出：weights·V

输出与值一样宽，并且落在各个值之间：权重为 [1, 0] 时就是第一个值，[0.5, 0.5] 时在正中间。
加上这最后一步，注意力就完整了：softmax(Q·Kᵀ/√d)·V。

N 个查询，M 个键和值，d 是 q 和 k 的宽度，e 是 v 的宽度（常常相同，但不一定）。
"""

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    """Given: you wrote it in the last exercise.
    ----
    已给出：上一个练习里写过。
    """
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def weighted_sum(weights: np.ndarray, v: np.ndarray) -> np.ndarray:
    """weights (N, M), v (M, e) → (N, e).
    ----
    weights (N, M)，v (M, e) → (N, e)。
    ----

    >>> weighted_sum(np.array([[0.75, 0.25], [0.0, 1.0]]), np.array([[4.0, 0.0, 8.0], [0.0, 4.0, 0.0]])).tolist()
    [[3.0, 1.0, 6.0], [0.0, 4.0, 0.0]]
    """
    # hole
    return weights @ v
    # end


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """softmax(Q·Kᵀ/√d)·V: q (N, d), k (M, d), v (M, e) → (N, e).
    ----
    softmax(Q·Kᵀ/√d)·V：q (N, d)，k (M, d)，v (M, e) → (N, e)。
    ----

    >>> q, k, v = np.array([[2.0, 0, 0, 0]]), np.array([[2.0, 0, 0, 0], [0, 1, 1, 1]]), np.array([[1.0], [0.0]])
    >>> attention(q, k, v).round(3).tolist()
    [[0.881]]
    """
    # hole
    weights = softmax(q @ k.T / np.sqrt(q.shape[-1]))  # (N, M)
    return weighted_sum(weights, v)
    # end
