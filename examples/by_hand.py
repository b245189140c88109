"""Three words of width 2, small enough for pencil and paper, with every number in between.

    x          W_q       W_k       W_v          q = x·W_q   k = x·W_k   v = x·W_v
    我 [1 0]   [1 0]     [0 1]     [1 2]        [1 0]       [0 1]       [1 2]
    爱 [0 1]   [1 1]     [1 0]     [0 3]        [1 1]       [1 0]       [0 3]
    你 [1 1]                                    [2 1]       [1 1]       [1 5]

我爱你 ("I love you")：三个词，宽 2，可以用纸笔跟着算，每个中间数都列出。
"""

import numpy as np

import qkv
from qkv.attention import Steps
from qkv.i18n import say

WORDS = ["我", "爱", "你"]
X = [[1, 0], [0, 1], [1, 1]]
W_Q = [[1, 0], [1, 1]]
W_K = [[0, 1], [1, 0]]
W_V = [[1, 2], [0, 3]]


def attention() -> Steps:
    """Every number but the powers of e and the single terms of the sum, which follow below."""
    return qkv.steps(X, W_Q, W_K, W_V, names=WORDS)


def powers(done: Steps) -> np.ndarray:
    """e to the power of each scaled score: what softmax divides by its row's sum."""
    return np.exp(done.scaled)


def terms(done: Steps, row: int) -> np.ndarray:
    """One word's output before it is added up: each weight times its row of V."""
    return done.weights[row][:, None] * done.v


if __name__ == "__main__":
    done = attention()
    raised = powers(done)
    print(done)
    print("\n" + say("Inside step 4: e^scaled of each row, and its sum"))
    for word, row in zip(WORDS, raised, strict=True):
        print(f"     {word}  " + " + ".join(f"{number:.3f}" for number in row) + f" = {row.sum():.3f}")
    for row in range(len(WORDS)):
        print("\n" + done.word(row))
