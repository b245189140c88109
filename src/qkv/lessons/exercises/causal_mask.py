"""The causal mask: nobody looks at what comes later.

A model that guesses the next word may not see it. So word i may look at itself and at what came before. A
mask says who may look at whom, one True or False per pair. Here, as everywhere in qkv, True means: may
attend.

    causal mask of 3 words      True  False False
                                True  True  False
                                True  True  True

Where it says False the score becomes −inf before the softmax; e^−inf is 0, and the others share the whole
1. (A mask after the softmax would leave rows that don't add up to 1; a score of 0 would still get a share,
since e⁰ = 1.)

With a cache there are fewer queries than keys: N queries are then the last N of the M words, so the last
query sees everything.

    2 queries, 4 keys           True  True  True  False
                                True  True  True  True
----
因果掩码：谁也不能看后面的内容。

猜下一个词的模型不能看到那个词。所以第 i 个词只能看自己和前面的词。掩码说明谁可以看谁，每一对一个 True 或
False。这里和 qkv 的其他地方一样，True 表示可以看。

    3 个词的因果掩码            True  False False
                                True  True  False
                                True  True  True

False 的地方，分数在 softmax 之前变成 −inf；e^−inf 是 0，其余的词分得全部的 1。（如果在 softmax 之后才遮，每
行加起来就不是 1；如果把分数改成 0，它仍会分到份额，因为 e⁰ = 1。）

用缓存时查询比键少：N 个查询是 M 个词里的最后 N 个，所以最后一个查询能看到全部。

    2 个查询，4 个键            True  True  True  False
                                True  True  True  True
"""

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    """Given.
    ----
    已给出。
    """
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def causal_mask(n: int, m: int) -> np.ndarray:
    """(n, m), True = may attend; the n queries are the last of the m words.
    ----
    (n, m)，True = 可以看；n 个查询是 m 个词里的最后 n 个。
    ----

    >>> causal_mask(2, 4).tolist()
    [[True, True, True, False], [True, True, True, True]]
    """
    # hole
    return np.arange(m) <= np.arange(m - n, m)[:, None]
    # end


def masked_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Attention where only pairs with mask True count: q (N, d), k (M, d), v (M, e), mask (N, M) → (N, e).
    ----
    只有掩码为 True 的对才算的注意力：q (N, d)，k (M, d)，v (M, e)，mask (N, M) → (N, e)。
    ----

    >>> q = k = np.zeros((2, 4))
    >>> masked_attention(q, k, np.array([[1.0], [3.0]]), causal_mask(2, 2)).tolist()
    [[1.0], [2.0]]
    """
    # hole
    scores = q @ k.T / np.sqrt(q.shape[-1])
    return softmax(np.where(mask, scores, -np.inf)) @ v
    # end
