"""Cross-attention: 5 target tokens look at 7 source tokens. Q comes from one text, K and V from the other.

A translator does this: each English word asks, the Chinese sentence answers. There are 5 queries and 7 keys, so the
weights are 5 × 7 and the output has 5 rows, one per English word, made of nothing but the Chinese side.
(Vectors and matrices are drawn from a seed: the shapes and sums are true, the alignment is not learned.)

交叉注意力：目标 5 个词元看源句 7 个词元；Q 来自一边，K 和 V 来自另一边，权重是 5 × 7。
"""

import numpy as np

import qkv
from qkv.attention import Steps

TARGET = ["I", "want", "to", "go", "home"]
SOURCE = list("我想现在就回家")  # "I want to go home right now"
WIDTH = 4

draw = np.random.RandomState(0)
X = draw.randn(len(TARGET), WIDTH)
MEMORY = draw.randn(len(SOURCE), WIDTH)
W_Q, W_K, W_V = draw.randn(3, WIDTH, WIDTH) / np.sqrt(WIDTH)


def attention() -> Steps:
    """q = X·W_q (5, 4), k = MEMORY·W_k and v = MEMORY·W_v (7, 4)."""
    return qkv.steps(X, W_Q, W_K, W_V, memory=MEMORY, names=TARGET, memory_names=SOURCE)


if __name__ == "__main__":
    print(attention())
