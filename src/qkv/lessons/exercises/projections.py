"""Queries, keys and values: three views of the same word.

Until now q, k and v were given. In self-attention all three come from the same words x, each through
a matrix of its own that is learned:

    q = x·W_q      what this word looks for
    k = x·W_k      what it offers to those who look
    v = x·W_v      what it hands over

Since W_q and W_k differ, "it" may look for "cat" without "cat" looking for "it". The width d of q and k is
the number of columns of W_q; it needn't be the width of x. The scale √d uses this d.

N words, C the width of x, d the width of q and k, e the width of v.
----
查询、键和值：同一个词的三个侧面。

到目前为止 q、k、v 是现成的。在自注意力里，三者都来自同样的词 x，各经过一个学出来的矩阵：

    q = x·W_q      这个词在找什么
    k = x·W_k      它凭什么被别人找到
    v = x·W_v      它交出什么内容

W_q 和 W_k 不同，所以“它”可以去找“猫”，而“猫”不必去找“它”。q 和 k 的宽度 d 是 W_q 的列数，不一定等于 x 的宽
度；√d 用的是 d。

N 个词，C 是 x 的宽度，d 是 q 和 k 的宽度，e 是 v 的宽度。
"""

import numpy as np


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Given: softmax(Q·Kᵀ/√d)·V.
    ----
    已给出：softmax(Q·Kᵀ/√d)·V。
    """
    scores = q @ k.T / np.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def self_attention(x: np.ndarray, w_q: np.ndarray, w_k: np.ndarray, w_v: np.ndarray) -> np.ndarray:
    """x (N, C), w_q (C, d), w_k (C, d), w_v (C, e) → (N, e).
    ----
    x (N, C)，w_q (C, d)，w_k (C, d)，w_v (C, e) → (N, e)。
    ----

    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> w_q, w_k, w_v = np.array([[4.0], [0.0]]), np.array([[0.0], [1.0]]), np.array([[10.0], [20.0]])
    >>> self_attention(x, w_q, w_k, w_v).round(2).tolist()
    [[19.82], [15.0]]
    """
    # hole
    return attention(x @ w_q, x @ w_k, x @ w_v)
    # end
