"""Linear attention: without the softmax, attention is a recurrence.

Take the softmax away (and the scale with it), and let a word see itself and what came before:

    yᵢ = Σ (qᵢ·kⱼ) vⱼ        over j ≤ i
       = qᵢ · Σ kⱼ vⱼᵀ       the sum doesn't depend on qᵢ: it can be computed beforehand

That sum is a table of d × e numbers, the state S. A word writes into it, and then reads from it:

    S ← S + k vᵀ             every number of k times every number of v
    y = q · S                the row q times the table S

So there are two forms with the same result. The parallel one makes the whole N × N table of scores, as
attention does, and the work grows with N². The recurrent one goes from word to word, keeps S and forgets k
and v: a new word costs the same after ten words and after ten million. There is no cache that grows.

The price: S never grows, but everything is written on top of what is there. And what stands in it stays: when
another text begins, S has to be emptied first, or the new text reads the old one.

N words, d width of queries and keys, e width of values.
----
线性注意力：去掉 softmax，注意力就是一个循环。

把 softmax 去掉（缩放也不要了），让每个词只看自己和前面的词：

    yᵢ = Σ (qᵢ·kⱼ) vⱼ        对 j ≤ i 求和
       = qᵢ · Σ kⱼ vⱼᵀ       这个和与 qᵢ 无关，可以事先算好

这个和是一张 d × e 的表，叫状态 S。每个词先写进去，再读出来：

    S ← S + k vᵀ             k 的每个数乘 v 的每个数
    y = q · S                行向量 q 乘表 S

所以有两种形式，结果相同。并行形式像注意力那样算出整张 N × N 的分数表，计算量随 N² 增长。循环形式逐词计算，只留
S，不留 k 和 v：前面有十个词还是一千万个词，新来一个词的代价都一样，也没有越来越大的缓存。

代价是：S 不会变大，所有内容都叠加在一起。而且写进去的不会自己消失：换一段文本时，要先把 S 清空，否则新文本会读到
旧文本的内容。

N 个词，d 是查询和键的宽度，e 是值的宽度。
"""

import numpy as np


def parallel(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The whole table at once: q (N, d), k (N, d), v (N, e) → (N, e).
    ----
    一次算出整张表：q (N, d)，k (N, d)，v (N, e) → (N, e)。
    ----

    >>> ones = np.ones((3, 1))
    >>> parallel(ones, ones, np.array([[1.0], [2.0], [4.0]])).tolist()
    [[1.0], [3.0], [7.0]]
    """
    # hole
    return np.tril(q @ k.T) @ v
    # end


def recurrent(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same, word by word → (output (N, e), the state after the last word (d, e)).
    ----
    同样的结果，逐词计算 →（输出 (N, e)，最后一个词之后的状态 (d, e)）。
    ----

    >>> output, state = recurrent(np.eye(2), np.eye(2), np.array([[1.0], [2.0]]))
    >>> output.tolist(), state.tolist()
    ([[1.0], [2.0]], [[1.0], [2.0]])
    """
    # hole
    output = np.zeros((len(q), v.shape[1]))
    state = np.zeros((k.shape[1], v.shape[1]))  # nothing is written yet | 还什么都没写
    for i in range(len(q)):
        state = state + np.outer(k[i], v[i])
        output[i] = q[i] @ state
    return output, state
    # end


def packed(q: np.ndarray, k: np.ndarray, v: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Several texts one after the other, begins (N,) True at the first word of each → (N, e), as if each stood alone.
    ----
    几段文本首尾相接，begins (N,) 在每段的第一个词处为 True → (N, e)，就像每段单独计算一样。
    ----

    >>> ones = np.ones((3, 1))
    >>> packed(ones, ones, np.array([[1.0], [2.0], [4.0]]), np.array([True, False, True])).tolist()
    [[1.0], [3.0], [4.0]]
    """
    # hole
    output = np.zeros((len(q), v.shape[1]))
    state = np.zeros((k.shape[1], v.shape[1]))
    for i in range(len(q)):
        if begins[i]:
            state = np.zeros_like(state)
        state = state + np.outer(k[i], v[i])
        output[i] = q[i] @ state
    return output
    # end
