"""Cross-attention: one text looks at another.

A translator writes its sentence while looking at the source. The queries come from what is being written,
the keys and values from what is read, called the memory:

    q = x·W_q            N rows, from the target
    k = memory·W_k       M rows, from the source
    v = memory·W_v

Nothing else changes. N and M need not be equal, the weights are (N, M): each word being written spreads its
1 over the source. A mask hides padding of the memory, so it has one True or False per source word; there is
no future in the source, so no causal mask.

N target words, M source words, C the width of both.
----
交叉注意力：一段文本看另一段文本。

翻译时一边写译文，一边看原文。查询来自正在写的译文，键和值来自读入的原文，后者叫作 memory：

    q = x·W_q            N 行，来自目标文本
    k = memory·W_k       M 行，来自源文本
    v = memory·W_v

其他都不变。N 和 M 不必相等，权重是 (N, M)：每个正在写的词把总和为 1 的权重分给原文各词。掩码遮住 memory
里的填充，所以每个源词一个 True 或 False；原文可以全部看到，不需要因果掩码。

N 个目标词，M 个源词，宽度都是 C。
"""

import numpy as np


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Given: softmax(Q·Kᵀ/√d)·V, with a mask (N, M) or (1, M); True = may attend.
    ----
    已给出：softmax(Q·Kᵀ/√d)·V，掩码 (N, M) 或 (1, M)；True = 可以看。
    """
    scores = np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def cross_attention(
    x: np.ndarray, memory: np.ndarray, w_q: np.ndarray, w_k: np.ndarray, w_v: np.ndarray, words: np.ndarray
) -> np.ndarray:
    """x (N, C) looks at memory (M, C); w_q, w_k (C, d), w_v (C, e); words (M,): True = a word, False =
    padding → (N, e).
    ----
    x (N, C) 看 memory (M, C)；w_q、w_k (C, d)，w_v (C, e)；words (M,)：True = 词，False = 填充 → (N, e)。
    ----

    >>> x, memory = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
    >>> identity = np.eye(2)
    >>> cross_attention(x, memory, identity, identity, identity, np.array([True, True, False])).round(3).tolist()
    [[0.67, 0.33]]
    """
    # hole
    return attention(x @ w_q, memory @ w_k, memory @ w_v, words[None, :])
    # end
