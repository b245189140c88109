"""Similarity: how well two lists of numbers agree."""

# %% learned slow
import numpy as np

import qkv

model, tokenizer = qkv.load("minilm")
table = model.embedding.weight.detach().numpy()
rows, width = table.shape
lengths = np.linalg.norm(table, axis=1)
for word in ("cat", "tea", "monday"):
    this = tokenizer.encode(word)[0]
    cosines = table @ table[this] / (lengths * lengths[this])
    # The nearest of all is the word itself. | 最近的是它自己。
    near = [int(i) for i in np.argsort(-cosines)[1:5]]
    shown = (f"{tokenizer.decode([i])} {cosines[i]:.2f}  " for i in near)
    print(f"{word:7}", *shown)

# %% dot
import numpy as np


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


cat, dog = [3, 2], [2, 3]
wolf, sofa = [3, -1], [0, 3]
print("cat · dog  =", dot(cat, dog))
print("wolf · sofa =", dot(wolf, sofa))


# %% cosine
def length(a):
    return dot(a, a) ** 0.5


def cosine(a, b):
    return dot(a, b) / (length(a) * length(b))


big_sofa = [0, 6]
for name, other in (("sofa", sofa), ("big sofa", big_sofa), ("dog", dog)):
    print(f"cat, {name:8}  dot {dot(cat, other):2}", end="   ")
    print(f"cosine {cosine(cat, other):.3f}")


# %% angle
def angle(a, b):
    return np.degrees(np.arccos(cosine(a, b)))


asked, answer = [1, 2, 3], [4, 0, 1]

# %% all_pairs
words = ["cat", "dog", "wolf", "sofa"]
X = np.array([cat, dog, wolf, sofa])
print(X @ X.T)

# %% onehot
onehot = np.eye(4, dtype=int)
print(onehot @ onehot.T)

# %% head
from qkv.draw.figure_canvas import blank
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
row = trace.steps(13, 8, "it")
q = row.q[0]
print("          dot    length  cosine")
for key in np.argsort(-row.scores[0])[:4]:
    k = row.k[key]
    print(f"{row.keys[key]:6}{q @ k:8.2f}{length(k):9.2f}{cosine(q, k):8.3f}")
best, first = row.k[row.keys.index("cat")], row.k[row.keys.index("The")]

# %% figures
from qkv.draw.head_machine import Machine


def arrows(lang):
    """The four words as arrows, and the angle between cat and sofa."""
    axes = (figure := blank((4.6, 3.9), [], lang)).add_subplot()
    for word, (x, y), ink in zip(words, X, ("#2166ac", "#2b8a3e", "#d9480f", "#862e9c"), strict=True):
        axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": ink, "lw": 2})
        axes.annotate(f"{word} [{x}, {y}]", (x, y), (4, 4), textcoords="offset points", color=ink)
    turn = np.linspace(np.arctan2(*cat[::-1]), np.arctan2(*sofa[::-1]))
    axes.plot(np.cos(turn), np.sin(turn), color="#767676", lw=1)
    axes.text(0.13, 1.08, f"{angle(cat, sofa):.0f}°", color="#767676")
    axes.axhline(0, color="#cccccc", lw=0.8, zorder=0)
    axes.axvline(0, color="#cccccc", lw=0.8, zorder=0)
    axes.set(xlim=(-0.6, 4.3), ylim=(-1.5, 3.7), aspect="equal")
    axes.set_xlabel({"en": "is an animal", "zh": "是动物"}[lang])
    axes.set_ylabel({"en": "is at home", "zh": "在家里"}[lang])
    axes.spines[["top", "right"]].set_visible(False)
    return figure


machine = Machine(words, x=X, scale="none", show=("x", "scores"), query="cat", digits=0)
real_head = Look(trace, 13, 8, show=("steps",), focus=("it", "cat"))
