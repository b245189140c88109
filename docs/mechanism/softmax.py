"""Softmax: from scores to shares."""

# %% softmax
import numpy as np


def softmax(scores):
    # The largest power is e⁰ = 1: nothing overflows. | 最大的幂是 e⁰ = 1：不会溢出。
    powers = np.exp(scores - np.max(scores))
    return powers / powers.sum()


scores = np.array([2.0, 1.0, 0.0])
weights = softmax(scores)
print(weights.round(3), "sum", weights.sum().round(3))

# %% by_hand
powers = np.exp(scores)
total = powers.sum()
shifted = softmax(scores + 5)
doubled = softmax(2 * scores)

# %% temperature
for factor in (0, 0.5, 1, 2, 10):
    print(f"scores × {factor:<4}", softmax(factor * scores).round(3))

# %% overflow
large = softmax(np.array([1000.0, 999.0, 998.0]))
print(f"the largest float64: {np.finfo(float).max:.0e}")
print(f"e to the power 1000: 1e+{1000 / np.log(10):.0f}")
print("softmax of 1000, 999, 998:", large.round(3))

# %% play
words = "今天 天气 真 好 ， 我 想 出 去 玩".split()
similarities = np.array([0.1, 0.2, 0.3, 0.4, 0.0, 0.1, 0.5, 0.6, 0.7, 0.8])
play = softmax(similarities)
for word, similarity, weight in zip(words, similarities, play, strict=True):
    print(f"{similarity:.1f}  →  {weight:.3f}  {'█' * round(200 * weight)} {word}")
print(f"sum     {play.sum():.3f}")

# %% head
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
row = trace.steps(13, 8, "it")
order = np.argsort(-row.weights[0])
for key in order[:4]:
    print(f"{row.keys[key]:8} score {row.scaled[0, key]:6.3f}   weight {row.weights[0, key]:.3f}")
first, second = order[:2]
gap = row.scaled[0, first] - row.scaled[0, second]

# %% figures
from qkv.draw.head_machine import Machine

machine = Machine(["it"], scores=[[2, 1, 0]], key_words=["cat", "mat", "tired"], show=("scores", "weights"))
real_row = Look(trace, 13, 8, show=("steps",), focus=("it", "cat"))
