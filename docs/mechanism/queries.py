"""Queries, keys, values: what a word asks, what it is found by, what it hands over."""

# %% plain
import numpy as np

import qkv

words = ["I", "love", "tea"]
x = np.eye(3, 4)
plain = qkv.steps(x, names=words)
print(plain.scores)
print(plain.weights.round(3))

# %% by_hand
wrong = (0.506, 0.247)  # a well-known print of the weights above
scaled = plain.scaled[0]
powers = np.exp(scaled)
shares = plain.weights[0]

# %% project
names = ["cat", "mat", "it"]
x = np.eye(3)
w_q = np.array([[0, 1], [0, 0], [2, 0]])
w_k = np.array([[2, 0], [0, 2], [0, 0]])
w_v = np.array([[5, 1], [1, 4], [0, 0]])

q, k, v = x @ w_q, x @ w_k, x @ w_v
scores = q @ k.T
print(scores)

# %% attend
done = qkv.steps(x, w_q, w_k, w_v, names=names)
it = done.weights[2]
for share, value, name in zip(it, done.v, names, strict=True):
    print(f"{share:.3f} × {value}  {name}")
print("Σ    =", done.output[2].round(3))

# %% symmetric
alike = x @ x.T
print("same both ways:", (alike == alike.T).all())
print("same both ways:", (scores == scores.T).all())

# %% linear
import torch

layer = torch.nn.Linear(3, 2, bias=False)
# It keeps its matrix with rows and columns swapped. | 它保存的矩阵行列对调。
print(tuple(layer.weight.shape))
with torch.no_grad():
    layer.weight.copy_(torch.tensor(w_q.T))
    print(np.array_equal(layer(torch.eye(3)).numpy(), q))

# %% head
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
head = trace.steps(13, 8)
at = {word: place for place, word in enumerate(head.keys)}
found = {pair: head.scores[at[pair[0]], at[pair[1]]] for pair in [("it", "cat"), ("cat", "it"), ("it", "it")]}
for (asks, answers), score in found.items():
    print(f"{f'q({asks}) · k({answers})':16} = {score:6.2f}")

# %% figures
from qkv.draw.head_machine import Machine

machine = Machine(
    names, x=x, w_q=w_q, w_k=w_k, w_v=w_v, show=("w", "qkv", "scores", "scaled", "weights", "output"), query="it"
)
real_head = Look(trace, 13, 8, show=("map",), focus=("it", "cat"))
