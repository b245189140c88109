"""Scores: how well does each query fit each key?

The score of a query and a key is their dot product, the sum of the products of their numbers:

    score(q, k) = q₁k₁ + q₂k₂ + … + q_d k_d        all at once: Q·Kᵀ

It is also |q|·|k|·cos(angle): large where both point the same way, 0 at a right angle, negative where they
point apart. So a score says two things at once, direction and length. The cosine alone is the score divided
by both lengths.

N queries, M keys, each d numbers wide.
----
分数：每个查询与每个键有多匹配？

查询和键的分数是它们的点积，即对应的数相乘再求和：

    score(q, k) = q₁k₁ + q₂k₂ + … + q_d k_d        一次全部算出：Q·Kᵀ

它也等于 |q|·|k|·cos(夹角)：方向相同时大，垂直时为 0，相反时为负。所以分数同时反映方向和长度。
只要余弦，就用分数除以两者的长度。

N 个查询，M 个键，每个有 d 个数。
"""

import numpy as np


def scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """q (N, d) and k (M, d) → (N, M): row i holds query i's score with every key.
    ----
    q (N, d) 和 k (M, d) → (N, M)：第 i 行是查询 i 与每个键的分数。
    ----

    >>> scores(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [2.0, -1.0], [0.0, 1.0]])).tolist()
    [[11.0, 0.0, 2.0]]
    """
    # hole
    return q @ k.T
    # end


def cosines(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The cosine of the angle between every query and every key, (N, M), from −1 to 1.
    ----
    每个查询与每个键夹角的余弦，(N, M)，从 −1 到 1。
    ----

    >>> cosines(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [2.0, -1.0], [0.0, 1.0]])).round(3).tolist()
    [[0.984, 0.0, 0.894]]
    """
    # hole
    lengths = np.linalg.norm(q, axis=-1)[:, None] * np.linalg.norm(k, axis=-1)  # (N, M)
    return q @ k.T / lengths
    # end
