"""Four tokens of width 6 from `np.random.seed(42)`: numbers that anyone can draw again and compare.

X is drawn first, then W_q, W_k and W_v, each 0.1·randn(6, 6). With matrices that small all scores are near 0 and all
weights near 1/4: attention that has learned nothing looks everywhere alike.

种子 42 的四个词元，宽 6：谁都可以重算一遍来核对。
"""

import numpy as np

import qkv
from qkv.attention import Steps
from qkv.i18n import say


def attention() -> Steps:
    """The legacy generator is meant: it gives the same numbers in every version of NumPy."""
    draw = np.random.RandomState(42)  # np.random.seed(42) without changing the state of other code
    x = draw.randn(4, 6)
    w_q, w_k, w_v = (0.1 * draw.randn(6, 6) for _ in range(3))
    return qkv.steps(x, w_q, w_k, w_v)


if __name__ == "__main__":
    done = attention()
    print(done)
    print("\n" + say("first row of scores"), done.scores[0].round(3))
    print(say("first row of weights"), done.weights[0].round(3))
