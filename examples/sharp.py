"""How sharp softmax is: 人 with similarities 9, 6, 3, 1 to the characters of 人工智能 ("artificial intelligence").

A difference of 3 is a factor of e³ ≈ 20, so the first character takes .950 and the others share the rest: .047, .002,
.000. A book gives .75, .15, .07, .03 here, which is not the softmax of these numbers.

相似度 9、6、3、1 的 softmax 是 .950 .047 .002 .000：差 3 就差 20 倍。
"""

import numpy as np

from qkv.attention import Steps, from_qkv
from qkv.i18n import say

CHARACTERS = list("人工智能")
SIMILARITY = [9, 6, 3, 1]


def attention(scale: float = 1) -> Steps:
    """The query is the number 1, so that its product with a key is the similarity itself."""
    keys = [[s] for s in SIMILARITY]
    return from_qkv([[1]], keys, np.eye(4), scale=scale, names=["人"], memory_names=CHARACTERS)


if __name__ == "__main__":
    weights = attention().weights[0]
    for character, similarity, weight in zip(CHARACTERS, SIMILARITY, weights, strict=True):
        print(f"{similarity}  e^{similarity} = {np.exp(similarity):7.1f}  →  {weight:.3f}  {character}")
    print(f"Σ →  {weights.sum():.3f}")
    print("\n" + say("This is why scores are divided by √d. The same four, divided by √4 and by √16:"))
    for d in (4, 16):
        print(f"√{d:<2} →  {attention(scale=d**-0.5).weights[0].round(3)}")
