"""Three one-hot words in 4 dimensions, Q = K = V: the smallest self-attention there is.

A word matches itself (1) and nothing else (0). Divided by √4 that is 0.5 and 0, and softmax gives e^0.5 : 1 : 1,
which is 0.452 / 0.274 / 0.274. One tutorial prints 0.506 / 0.247 for these words, which is not
the softmax of 0.5, 0, 0.

三个独热词，Q = K = V：最小的自注意力；权重是 0.452 / 0.274 / 0.274。
"""

import qkv
from qkv.attention import Steps

WORDS = ["I", "love", "tea"]
X = [
    [1, 0, 0, 0],
    [0, 1, 0, 0],
    [0, 0, 1, 0],
]


def attention() -> Steps:
    """Without weight matrices, q = k = v = x."""
    return qkv.steps(X, names=WORDS)


if __name__ == "__main__":
    print(attention())
