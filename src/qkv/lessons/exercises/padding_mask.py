"""The padding mask: sentences of different lengths in one batch.

A batch is one array, so short sentences are filled up with padding. Padding is not a word, so no query
may look at it. The mask hides keys: column j is True for the words and False for the padding, the same for every
query of that sentence.

    lengths [3, 2], longest 4      sentence 0:  True  True  True  False
                                   sentence 1:  True  True  False False

The scores are (B, N, M). A mask of shape (B, 1, M) fits them: the 1 is broadcast over all N queries. (B, M)
would not: it would be aligned with (N, M). And (B, M, 1) would hide queries instead of keys. What padded
queries compute doesn't matter; it isn't used.

B sentences, N queries, M keys, d width.
----
填充掩码：把长短不一的句子放进一个批次。

一个批次是一个数组，短句子要用填充补齐。填充不是词，谁也不能看它。被遮的是键：第 j 列对词是 True，对填充是
False，同一句的每个查询都一样。

    长度 [3, 2]，最长 4            第 0 句：  True  True  True  False
                                   第 1 句：  True  True  False False

分数是 (B, N, M)。形状 (B, 1, M) 的掩码正好合适：那个 1 会扩展到全部 N 个查询。(B, M) 不行：它会对到 (N, M)
上。而 (B, M, 1) 遮的是查询而不是键。填充位置上的查询算出什么无所谓，没有人读它。

B 个句子，N 个查询，M 个键，宽度 d。
"""

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    """Given.
    ----
    已给出。
    """
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def padding_mask(lengths: np.ndarray, m: int) -> np.ndarray:
    """lengths (B,), the number of words of each sentence → (B, 1, m), True = a word, may be attended to.
    ----
    lengths (B,) 是每句的词数 → (B, 1, m)，True = 是词，可以看。
    ----

    >>> padding_mask(np.array([3, 2]), 4).tolist()
    [[[True, True, True, False]], [[True, True, False, False]]]
    """
    # hole
    return (np.arange(m) < lengths[:, None])[:, None, :]
    # end


def batched_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """q (B, N, d), k (B, M, d), v (B, M, e), mask (B, 1, M) → (B, N, e), each sentence by itself.
    ----
    q (B, N, d)，k (B, M, d)，v (B, M, e)，mask (B, 1, M) → (B, N, e)，每句各算各的。
    ----

    >>> q, k, v = np.zeros((2, 1, 4)), np.zeros((2, 3, 4)), np.array([[[1.0], [3.0], [9.0]], [[2.0], [4.0], [6.0]]])
    >>> batched_attention(q, k, v, padding_mask(np.array([2, 3]), 3)).tolist()
    [[[2.0]], [[4.0]]]
    """
    # hole
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])  # (B, N, M)
    return softmax(np.where(mask, scores, -np.inf)) @ v
    # end
