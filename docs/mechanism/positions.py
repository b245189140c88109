"""Positions: how a word knows where it stands."""

# %% shuffle
import numpy as np


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attend(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    return softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


draw = np.random.default_rng(0)
dog, bites, man = draw.standard_normal((3, 4))
matrices = draw.standard_normal((3, 4, 4)) / 2
one = attend(np.array([dog, bites, man]), *matrices)
other = attend(np.array([man, bites, dog]), *matrices)
print("dog bites man: dog becomes", one[0].round(3))
print("man bites dog: dog becomes", other[2].round(3))

# %% shuffle_numbers
assert np.allclose(one, other[::-1])


# %% turn
def turn(x, angle):  # a pair of numbers, turned | 把一对数转过一个角度
    (a, b), cos, sin = x, np.cos(angle), np.sin(angle)
    return np.array([a * cos - b * sin, b * cos + a * sin])


q, k, step = np.array([2.0, 0.0]), np.array([1.0, 1.0]), 0.5
for i, j in ((3, 1), (8, 6), (3, 2), (3, 3)):
    score = turn(q, i * step) @ turn(k, j * step)
    print(f"query at {i}, key at {j}: {score:.3f}")


# %% turn_numbers
def product(i, j):
    return float(turn(q, i * step) @ turn(k, j * step))


(i_q, i_k), (later_q, later_k) = (3, 1), (8, 6)
moved = later_q - i_q
assert moved == later_k - i_k
length = np.hypot(*turn(q, i_q * step))
assert np.isclose(product(i_q, i_k), product(later_q, later_k)) and np.isclose(length, np.hypot(*q))
q_at, k_at = turn(q, i_q * step), turn(k, i_k * step)


# %% sines
def sines(n, width):
    place = np.arange(n)[:, None]
    speed = 10000.0 ** -(np.arange(0, width, 2) / width)
    table = np.zeros((n, width))
    table[:, 0::2] = np.sin(place * speed)
    table[:, 1::2] = np.cos(place * speed)
    return table  # (N, C), added to the word vectors | 加到词向量上


table = sines(200, 64)
print(sines(3, 4).round(3))
for i, j in ((5, 2), (13, 10), (103, 100)):
    print(f"places {i:3} and {j:3}: {table[i] @ table[j]:.3f}")

# %% learned
import torch

from qkv.attention.positions import Learned
from qkv.i18n import Problem

positions = Learned(longest=8, width=4)
print(positions(torch.zeros(1, 8, 4)).shape)
try:
    positions(torch.zeros(1, 9, 4))
except Problem as problem:
    print(problem)


# %% rotary
def rotary(x, at):
    a, b = np.split(x, 2)  # pairs (a₀, b₀), (a₁, b₁), …
    speed = 10000.0 ** -(np.arange(len(a)) / len(a))
    cos, sin = np.cos(at * speed), np.sin(at * speed)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin])


wide_q, wide_k = draw.standard_normal((2, 64))
for i, j in ((5, 2), (13, 10), (1003, 1000), (5, 4), (1003, 1002)):
    score = rotary(wide_q, i) @ rotary(wide_k, j) / 8
    print(f"query at {i:4}, key at {j:4}, distance {i - j}: {score:.3f}")


# %% alibi
def alibi(n, n_head):
    slope = 2.0 ** (-8 * np.arange(1, n_head + 1) / n_head)  # one per head | 每个头一个
    distance = np.abs(np.arange(n)[:, None] - np.arange(n))
    return slope[:, None, None] * -distance  # (H, N, N), to add to the scores | 加到分数上


for head in (0, 3, 7):
    row = alibi(5, 8)[head, -1]  # of the last word | 最后一个词的一行
    print(f"head {head}: added  ", row.round(3))
    print("        weights", softmax(row).round(3))

# %% code_numbers
from qkv.attention import positions as ours

wide = torch.randn(1, 1, 1, 64, dtype=torch.float64)
assert np.allclose(ours.Rotary(64)(wide, at=7)[0, 0, 0], rotary(wide[0, 0, 0].numpy(), 7))
assert np.allclose(ours.Sinusoidal(64)(torch.zeros(1, 200, 64, dtype=torch.float64))[0], table)
assert np.allclose(ours.ALiBi(8).bias(5, 5)[0].numpy(), alibi(5, 8))
same_distance = [rotary(wide_q, i) @ rotary(wide_k, i - 3) / 8 for i in (5, 13, 1003)]
assert np.ptp(same_distance) < 1e-9
first_word = softmax(alibi(5, 8)[0, -1])[0], softmax(alibi(5, 8)[7, -1])[0]

# %% head
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
call = trace.call(16)
q_turned, k_turned = call.q[0, 0].double().numpy(), call.k[0, 0].double().numpy()


def previous(move_queries, move_keys):
    """The mean weight on the word before, every q and k turned on by so many places."""
    n = len(q_turned)
    q = np.array([rotary_of(q_turned[i], move_queries(i)) for i in range(n)])
    k = np.array([rotary_of(k_turned[i], move_keys(i)) for i in range(n)])
    scores = np.where(np.tril(np.ones((n, n), bool)), q @ k.T * call.scale, -np.inf)
    return float(np.diag(softmax(scores), -1)[1:].mean())


def rotary_of(x, at):
    """As `rotary`, at the speeds of this model."""
    a, b = np.split(x, 2)
    speed = np.array(trace.turning.frequencies)
    cos, sin = np.cos(at * speed), np.sin(at * speed)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin])


as_it_is = previous(lambda i: 0, lambda i: 0)
turned_back = previous(lambda i: -i, lambda i: -i)
all_moved = previous(lambda i: 100, lambda i: 100)
print(f"unchanged    {as_it_is:.2f}")
print(f"+ 100 places {all_moved:.2f}")
print(f"turned back  {turned_back:.2f}")

# %% head_numbers
layer, head, further = 16, 0, 100
la, slope, ways = ["la"] * 4, 1, ("sines", "rotary", "ALiBi")
assert np.isclose(as_it_is, np.diag(trace.map(16, 0), -1)[1:].mean(), atol=1e-4)
assert np.isclose(as_it_is, all_moved)
even = float(np.mean([1 / (i + 1) for i in range(2, len(q_turned))]))

# %% figures
from qkv.draw.head_machine import Machine
from qkv.draw.rotary_figure import Pair

pair = Pair(q=tuple(q), k=tuple(k), m=i_q, n=i_k, theta=step, most=later_q)
far = [[-slope * abs(i - j) for j in range(len(la))] for i in range(len(la))]
machine = Machine(la, scores=far, mask="causal", scale="none", show=("scores", "masked", "weights"))


def three(lang):
    """Scores between all places, a picture for each way."""
    from qkv.draw.figure_canvas import SIGNED, blank, paint

    n = 40
    turned = [np.array([rotary(x, at) for at in range(n)]) for x in (wide_q, wide_k)]
    tables = (table[:n] @ table[:n].T, turned[0] @ turned[1].T, alibi(n, 8)[1])
    titles = {"en": ways, "zh": ("正弦", "旋转", "ALiBi")}[lang]
    figure = blank((9, 3.1), titles, lang)
    for at, (scores, title) in enumerate(zip(tables, titles, strict=True)):
        axes = figure.add_subplot(1, 3, at + 1)
        paint(axes, scores, None, scores.max(), bottom=scores.min(), colours=SIGNED)
        axes.set_title(title, fontsize=11)
        axes.set_aspect("equal")
    return figure


before = Look(trace, layer, head, show=("map",), focus=("it", "because"))
