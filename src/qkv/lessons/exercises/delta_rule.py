"""The delta rule: a state that is written and overwritten.

Linear attention only ever adds. Write "the capital is Paris" and then "the capital is Rome", and a query for
"the capital" gets Paris + Rome. The delta rule first looks up what its key holds, and writes the difference:

    held = Sᵀ k              what a query equal to k would read now
    S ← S + β · k (v − held)ᵀ

For a key of length 1, what k holds moves from held towards v by the share β: with β = 1 it is v afterwards
(overwritten), with β = 0 nothing happens. Keys at a right angle to k are not affected.

    key [1, 0] holds 3, then 5 is written with β = 1         linear attention reads 8, the delta rule 5
                                        with β = 0.5                                              4

The gated delta rule, used in Qwen3-Next and Kimi Linear, also lets the whole state fade. The order
matters: first fade, then look up, then write. So what is looked up is the faded state, and what is written
now hasn't faded yet:

    S ← γ · S                γ and β are numbers between 0 and 1, their own for every word
    S ← S + β · k (v − Sᵀ k)ᵀ
    y = q · S

N words, d width of queries and keys, e width of values.
----
delta 规则：可以写入、也可以覆盖的状态。

线性注意力只会往上加。先写“首都是巴黎”，再写“首都是罗马”，查询“首都”时读到的是巴黎 + 罗马。delta 规则先查出这个
键名下已有的内容，只写入差值：

    held = Sᵀ k              与 k 相同的查询现在会读到的内容
    S ← S + β · k (v − held)ᵀ

如果键的长度为 1，k 名下的内容就从 held 向 v 移动，比例为 β：β = 1 时变成 v（被覆盖），β = 0 时什么也不变。与 k
垂直的键不受影响。

    键 [1, 0] 名下是 3，再以 β = 1 写入 5                    线性注意力读到 8，delta 规则读到 5
                        以 β = 0.5 写入                                                      4

门控 delta 规则（Qwen3-Next 和 Kimi Linear 用的就是它）还让整个状态衰减。顺序很重要：先衰减，再查，再写。所以查的是
衰减之后的状态，而刚写入的还没有衰减：

    S ← γ · S                γ 和 β 都在 0 与 1 之间，每个词各有一个
    S ← S + β · k (v − Sᵀ k)ᵀ
    y = q · S

N 个词，d 是查询和键的宽度，e 是值的宽度。
"""

import numpy as np


def write(state: np.ndarray, k: np.ndarray, v: np.ndarray, beta: float) -> np.ndarray:
    """One write: state (d, e), key k (d,), value v (e,) → the new state (d, e).
    ----
    写一次：状态 (d, e)，键 k (d,)，值 v (e,) → 新的状态 (d, e)。
    ----

    >>> state = np.array([[3.0], [7.0]])
    >>> write(state, np.array([1.0, 0.0]), np.array([5.0]), 1.0).tolist()
    [[5.0], [7.0]]
    """
    # hole
    held = state.T @ k  # (e,)
    return state + beta * np.outer(k, v - held)
    # end


def delta_rule(q: np.ndarray, k: np.ndarray, v: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Word by word, write, then read: q, k (N, d), v (N, e), beta (N,) → (N, e).
    ----
    逐词计算，先写后读：q、k (N, d)，v (N, e)，beta (N,) → (N, e)。
    ----

    >>> key = np.ones((2, 1))
    >>> delta_rule(key, key, np.array([[3.0], [5.0]]), np.ones(2)).tolist()
    [[3.0], [5.0]]
    """
    # hole
    state = np.zeros((k.shape[1], v.shape[1]))
    output = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        state = write(state, k[i], v[i], beta[i])
        output[i] = q[i] @ state
    return output
    # end


def gated_delta_rule(q: np.ndarray, k: np.ndarray, v: np.ndarray, beta: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """The same with a state that fades, gamma (N,): fade, write, read → (N, e).
    ----
    同上，但状态会衰减，gamma (N,)：先衰减，再写，再读 → (N, e)。
    ----

    >>> q, k = np.array([[1.0, 0.0], [1.0, 0.0]]), np.eye(2)
    >>> gated_delta_rule(q, k, np.array([[8.0], [5.0]]), np.ones(2), np.array([0.5, 0.5])).tolist()
    [[8.0], [4.0]]
    """
    # hole
    state = np.zeros((k.shape[1], v.shape[1]))
    output = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        state = write(gamma[i] * state, k[i], v[i], beta[i])
        output[i] = q[i] @ state
    return output
    # end
