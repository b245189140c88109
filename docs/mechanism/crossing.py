"""Cross-attention: one text reads another."""

# %% by_hand
import numpy as np


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


written, read = ["go", "home"], ["我", "回", "家"]
q = np.array([[2.0, 0], [0, 2]])  # one row per written word | 写出的词，每个一行
k = np.array([[0.0, 0], [1, 0], [0, 1]])  # one row per read word | 读入的词，每个一行
v = np.array([[0.0, 0], [9, 0], [0, 9]])

weights = softmax(q @ k.T / np.sqrt(2))  # (2, 3)
print(weights.round(3))
print((weights @ v).round(3))

# %% by_hand_numbers
scaled = q @ k.T / np.sqrt(2)
output = weights @ v


# %% cross
def cross_attention(x, memory, w_q, w_k, w_v):
    q = x @ w_q  # (N, D): asked by the text that is written | 正在写的文本来问
    k = memory @ w_k  # (M, D): answered by the one that is read | 读入的文本来答
    v = memory @ w_v  # (M, D)
    weights = softmax(q @ k.T / np.sqrt(q.shape[-1]))  # (N, M)
    return weights @ v, weights  # (N, D)


# %% example
target = "I want to go home".split()
source = list("我想现在就回家")
draw = np.random.RandomState(0)
x = draw.randn(len(target), 4)
memory = draw.randn(len(source), 4)
matrices = draw.randn(3, 4, 4) / 2
made, shares = cross_attention(x, memory, *matrices)
print("x", x.shape, " memory", memory.shape, " output", made.shape)
print("weights", shares.shape)
print(shares.round(3))

# %% example_numbers
from examples import cross

assert np.allclose(cross.attention().weights, shares) and np.allclose(cross.attention().output, made)
assert (cross.TARGET, cross.SOURCE) == (target, source)


# %% who_moves
def rows_that_move(new_x, new_memory):
    now, _ = cross_attention(new_x, new_memory, *matrices)
    moved = np.abs(now - made).max(axis=1) > 1e-9
    return [word for word, yes in zip(target, moved, strict=True) if yes]


other_x, other_memory = x.copy(), memory.copy()
other_x[4] += 1
other_memory[0] += 1
print("another home:", rows_that_move(other_x, memory))
print("another 我:  ", rows_that_move(x, other_memory))

# %% torch
import torch

attention = torch.nn.MultiheadAttention(64, 8, batch_first=True)
text, other = torch.randn(1, 5, 64), torch.randn(1, 7, 64)
with torch.no_grad():
    result, seen = attention(query=text, key=other, value=other)
print("output", tuple(result.shape), " weights", tuple(seen.shape))

# %% head
from tools.book.figures import Look, demo

trace = demo("weather-opus-zh-en")
aligned = trace.map(3, 4, part="cross")
english = trace.tokens("cross").shown
chinese = trace.tokens("cross", keys=True).shown
for word, row in zip(english, aligned, strict=True):
    print(f"{word:6} {row.max():.2f}  {chinese[row.argmax()]}")

# %% before
behind = trace.map(2, 5, part="cross")
for word in ("day", "I", "go"):
    i = english.index(word)
    ahead, back = (chinese[table[i].argmax()] for table in (aligned, behind))
    print(f"{english[i - 1]:4} → {word:4}   3.4: {ahead:4}   2.5: {back}")

# %% head_numbers
n_written, n_read = aligned.shape
main, other_head = (3, 4), (2, 5)
assert np.array_equal(trace.map(*main, part="cross"), aligned)
assert np.array_equal(trace.map(*other_head, part="cross"), behind)
day = aligned[english.index("day")].max()

# %% figures
from qkv.draw.head_machine import Machine

shown = ("qkv", "scores", "scaled", "weights", "output")
machine = Machine(written, key_words=read, q=q, k=k, v=v, show=shown)
real = Look(trace, 3, 4, part="cross", show=("map", "lines"), focus=("want", "我想"))
