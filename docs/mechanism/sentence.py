"""The weighted sum: one sentence from words to output, every number."""

# %% attention
import numpy as np


def attention(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v  # (n, d) each | 都是 (n, d)
    scores = q @ k.T  # (n, n)
    scaled = scores / np.sqrt(k.shape[-1])
    powers = np.exp(scaled - scaled.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    return weights @ v  # (n, d)


# %% sentence
x = np.array([[1, 0], [0, 1], [1, 1]])  # 我 爱 你
w_q = np.array([[1, 0], [1, 1]])
w_k = np.array([[0, 1], [1, 0]])
w_v = np.array([[1, 2], [0, 3]])
output = attention(x, w_q, w_k, w_v)
print(output.round(3))

# %% same
import torch
from torch.nn.functional import scaled_dot_product_attention

import qkv

theirs = qkv.steps(x, w_q, w_k, w_v).output
q, k, v = (torch.tensor(x @ w).double() for w in (w_q, w_k, w_v))
torchs = scaled_dot_product_attention(q, k, v).numpy()
print(f"qkv.steps  {abs(output - theirs).max():.15f}")
print(f"torch      {abs(output - torchs).max():.15f}")

# %% by_hand
from examples import by_hand

names = by_hand.WORDS
done = by_hand.attention()
you = 2
powers = by_hand.powers(done)[you]
terms = by_hand.terms(done, you)
digits = np.finfo(float).precision
asked, mix = np.array([[10, 0], [0, 10]]), np.array([0.3, 0.7])
between = (2, 5)

# %% seed42
draw = np.random.RandomState(42)  # = np.random.seed(42)
x42 = draw.randn(4, 6)
matrices = [0.1 * draw.randn(6, 6) for _ in range(3)]
step = qkv.steps(x42, *matrices)
print("scores ", step.scores[0].round(3))
print("weights", step.weights[0].round(3))
print("output ", attention(x42, *matrices)[0].round(3))

# %% order
shuffled = [2, 0, 1]
print(attention(x[shuffled], w_q, w_k, w_v).round(3))
print(output[shuffled].round(3))

# %% head
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
row = trace.steps(13, 8, "it")
print("        w       v                           w·v")
for key in np.argsort(-row.weights[0])[:4]:
    w, value = row.weights[0, key], row.v[key, :3]
    print(f"{row.keys[key]:5} {w:.3f} ", *(f"{n:7.3f}" for n in value), "   ", *(f"{n:7.3f}" for n in w * value))
print(f"{'Σ':34}", "    ", *(f"{n:7.3f}" for n in row.output[0, :3]))
cat = row.v[row.keys.index("cat")]
alike = row.output[0] @ cat / np.linalg.norm(row.output[0]) / np.linalg.norm(cat)

# %% figures
from qkv.draw.head_machine import Machine

machine = Machine(names, x=x, w_q=w_q, w_k=w_k, w_v=w_v, query="你", digits=3)
real_head = Look(trace, 13, 8, show=("map", "steps"), focus=("it", "cat"))
