"""Both masks at once, and rows that may look at nothing.

A GPT trained on a batch needs both: no future, no padding. A pair must be allowed by both:

    allowed = causal & padding         (N, M) & (B, 1, M) → (B, N, M)

When the padding stands on the left (as for generation, so that all sentences end together), the first rows
are padding that sees only padding: everything is hidden. A row of −inf has the maximum −inf, and −inf −
(−inf) is NaN, which then spreads through the whole model. In qkv a row that may look at nothing gives 0:
weights 0, output 0.

    padding on the left, 3 keys, the first is padding:   row 0:  False False False  → output 0
                                                         row 1:  False True  False
                                                         row 2:  False True  True
----
两种掩码合用，以及什么都看不到的行。

在批次上训练 GPT，两种都要：不看后文，不看填充。一对词要两者都允许才行：

    allowed = causal & padding         (N, M) & (B, 1, M) → (B, N, M)

填充放在左边时（生成时这样做，好让所有句子一起结束），开头几行本身是填充，又只能看到填充：全部被遮住。整行
都是 −inf 时最大值也是 −inf，而 −inf − (−inf) 是 NaN，接着会传遍整个模型。在 qkv 里，什么都看不到的行给出 0：
权重 0，输出 0。

    左填充，3 个键，第一个是填充：   第 0 行：  False False False  → 输出 0
                                     第 1 行：  False True  False
                                     第 2 行：  False True  True
"""

import numpy as np


def both(causal: np.ndarray, padding: np.ndarray) -> np.ndarray:
    """causal (N, M) and padding (B, 1, M), True = may attend → (B, N, M).
    ----
    causal (N, M) 和 padding (B, 1, M)，True = 可以看 → (B, N, M)。
    ----

    >>> both(np.tri(2, dtype=bool), np.array([[[False, True]]])).tolist()
    [[[False, False], [False, True]]]
    """
    # hole
    return causal & padding
    # end


def safe_softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the last axis; a row of nothing but −inf gives 0, not NaN.
    ----
    沿最后一个轴的份额；全是 −inf 的行给出 0，而不是 NaN。
    ----

    >>> safe_softmax(np.array([[-np.inf, -np.inf], [-np.inf, 1.0]])).tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    # hole
    top = x.max(-1, keepdims=True)
    powers = np.exp(x - np.where(np.isneginf(top), 0.0, top))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)
    # end


def masked_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: np.ndarray, padding: np.ndarray | None = None
) -> np.ndarray:
    """q (B, N, d), k (B, M, d), v (B, M, e), causal (N, M), padding (B, 1, M) or None → (B, N, e).
    ----
    q (B, N, d)，k (B, M, d)，v (B, M, e)，causal (N, M)，padding (B, 1, M) 或 None → (B, N, e)。
    ----

    >>> q = k = np.zeros((1, 2, 4))
    >>> masked_attention(q, k, np.array([[[1.0], [3.0]]]), np.tri(2, dtype=bool), np.array([[[False, True]]])).tolist()
    [[[0.0], [3.0]]]
    """
    # hole
    allowed = causal if padding is None else both(causal, padding)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])  # (B, N, M)
    return safe_softmax(np.where(allowed, scores, -np.inf)) @ v
    # end
