"""Where 玩 ("play") looks in 今天天气真好，我想出去玩 ("the weather is fine today, I want to go out and play").

Ten similarities become ten weights. Weights are shares of one whole: the true softmax of this row sums to 1.
A tutorial prints a row for these numbers that sums to 0.87, so it cannot be a softmax.

“玩”对每个词的相似度经 softmax 变成权重：加起来必须是 1。
"""

import numpy as np

from qkv.attention import Steps, from_qkv

WORDS = ["今天", "天气", "真", "好", "，", "我", "想", "出", "去", "玩"]
SIMILARITY = [0.1, 0.2, 0.3, 0.4, 0.0, 0.1, 0.5, 0.6, 0.7, 0.8]


def attention() -> Steps:
    """The query is the number 1, so that its product with a key is the similarity itself; scale=1 leaves it so."""
    keys = [[s] for s in SIMILARITY]
    return from_qkv([[1.0]], keys, np.eye(len(WORDS)), scale=1, names=["玩"], memory_names=WORDS)


if __name__ == "__main__":
    weights = attention().weights[0]
    for word, similarity, weight in zip(WORDS, SIMILARITY, weights, strict=True):
        print(f"{similarity:.1f}  →  {weight:.3f}  {'█' * round(100 * weight)} {word}")
    print(f"Σ   →  {weights.sum():.3f}")
