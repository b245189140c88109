"""Retention's chunk: a table inside, a state between.

Retention (RetNet) is linear attention that forgets. Before each word is written, the state fades by γ, a
number between 0 and 1:

    S ← γ·S + k vᵀ           y = q · S

So what was written i − j words ago is multiplied by γ^(i−j). Written as one table, with L instead of a mask:

    Y = (L ∘ Q Kᵀ) V         Lᵢⱼ = γ^(i−j) for j ≤ i, else 0          ∘ number by number

    γ = 0.5, 3 words         1      0      0
                             0.5    1      0
                             0.25   0.5    1

The table costs N², the recurrence goes one word at a time, which is slow. So models are trained
in chunks of C words: the table inside a chunk, the state between chunks. Let S be the state before the chunk,
and count the words of the chunk i = 0 … C − 1:

    output of word i         row i of (L ∘ Q Kᵀ) V, from this chunk,
                             plus γ^(i+1) · qᵢ·S, from before: at word 0, S has faded once already
    the state afterwards     γ^C · S + Σ γ^(C−1−j) · kⱼ vⱼᵀ: the last word, j = C − 1, hasn't faded yet

Nearly all mistakes are one γ too many or too few at the border of a chunk. Any C must give the same
numbers, even if N is not a multiple of C.

N words, C of them in a chunk, d width of queries and keys, e width of values.
----
保留机制的分块：块内用表，块间传状态。

保留机制（RetNet）就是会遗忘的线性注意力。每写一个词之前，状态先乘以 γ（0 与 1 之间的数），衰减一次：

    S ← γ·S + k vᵀ           y = q · S

所以 i − j 个词之前写的内容，现在只剩 γ^(i−j)。写成一张表，用 L 代替掩码：

    Y = (L ∘ Q Kᵀ) V         Lᵢⱼ = γ^(i−j)（j ≤ i），否则为 0         ∘ 逐个数相乘

    γ = 0.5，3 个词          1      0      0
                             0.5    1      0
                             0.25   0.5    1

整张表的代价是 N²；循环一次只算一个词，计算机不擅长。所以训练时分成每 C 个词一块：块内用表，块间传状态。设 S
是这一块之前的状态，块内的词编号 i = 0 … C − 1：

    第 i 个词的输出          (L ∘ Q Kᵀ) V 的第 i 行，来自本块，
                             加上 γ^(i+1) · qᵢ·S，来自之前：到第 0 个词时，S 已经衰减过一次
    这一块之后的状态         γ^C · S + Σ γ^(C−1−j) · kⱼ vⱼᵀ：最后一个词 j = C − 1 还没有衰减

错误几乎都出在块的边界上：多乘或少乘了一个 γ。保证：C 取多少结果都一样，N 不是 C 的倍数时也一样。

N 个词，每块 C 个，d 是查询和键的宽度，e 是值的宽度。
"""

import numpy as np


def fading(n: int, gamma: float) -> np.ndarray:
    """L (n, n): γ^(i−j) for j ≤ i, 0 for what comes later.
    ----
    L (n, n)：j ≤ i 时为 γ^(i−j)，后面的词为 0。
    ----

    >>> fading(3, 0.5).tolist()
    [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]]
    """
    # hole
    distance = np.arange(n)[:, None] - np.arange(n)
    return np.where(distance >= 0, gamma ** np.maximum(distance, 0), 0.0)
    # end


def chunk(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, gamma: float, state: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One chunk and the state before it: q, k (C, d), v (C, e), state (d, e) → (output (C, e), the state afterwards).
    ----
    一块，以及它之前的状态：q、k (C, d)，v (C, e)，state (d, e) →（输出 (C, e)，这一块之后的状态）。
    ----

    >>> one = np.ones((1, 1))
    >>> output, after = chunk(one, one, 2 * one, 0.5, 8 * one)
    >>> output.tolist(), after.tolist()
    ([[6.0]], [[6.0]])
    """
    # hole
    n = len(q)
    within = (fading(n, gamma) * (q @ k.T)) @ v
    before = gamma ** np.arange(1, n + 1)[:, None] * (q @ state)  # (C, 1) · (C, e)
    left = gamma ** np.arange(n - 1, -1, -1)[:, None]  # (C, 1)
    return within + before, gamma**n * state + (left * k).T @ v
    # end


def retention(q: np.ndarray, k: np.ndarray, v: np.ndarray, gamma: float, size: int) -> np.ndarray:
    """A whole text in chunks of `size` words, the last perhaps shorter: q, k (N, d), v (N, e) → (N, e).
    ----
    整段文本，每块 size 个词，最后一块可能短一些：q、k (N, d)，v (N, e) → (N, e)。
    ----

    >>> ones = np.ones((3, 1))
    >>> retention(ones, ones, np.array([[8.0], [0.0], [0.0]]), 0.5, 2).tolist()
    [[8.0], [4.0], [2.0]]
    """
    # hole
    state = np.zeros((k.shape[1], v.shape[1]))
    parts = []
    for start in range(0, len(q), size):
        piece = slice(start, start + size)
        output, state = chunk(q[piece], k[piece], v[piece], gamma, state)
        parts.append(output)
    return np.concatenate(parts)
    # end
