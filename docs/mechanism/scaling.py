"""Why √d: a sum of many products spreads, and a softmax of spread numbers stops learning."""

# %% coins
from collections import Counter
from itertools import product

import numpy as np

coins = [sum(throw) for throw in product((1, -1), repeat=4)]
counts = sorted(Counter(coins).items())
two = [sum(throw) for throw in product((1, -1), repeat=2)]
mean_square = np.mean(np.square(coins))
mean_square_of_two = np.mean(np.square(two))

# %% spread
dice = np.random.default_rng(0)
spreads = {}
for d in (4, 16, 64, 256, 1024):
    q, k = dice.standard_normal((2, 3000, d))
    scores = (q * k).sum(-1)
    spreads[d] = scores.std()
    print(f"d = {d:4}   √d = {d**0.5:2.0f}   spread {spreads[d]:5.2f}", end="   ")
    print(f"after ÷ √d {(scores / d**0.5).std():.2f}")


# %% attention_weights
def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention_weights(q, k):
    d = q.shape[-1]
    return softmax(q @ k.T / np.sqrt(d))


# %% sharp
characters = list("人工智能")
query = np.array([[1, 2, 0, 2]])
keys = np.array([[1, 2, 0, 2], [0, 2, 1, 1], [1, 0, 2, 1], [1, 0, 1, 0]])
similar = (query @ keys.T)[0]
raw = softmax(similar)
divided = attention_weights(query, keys)[0]
print("q·k      ", similar)
print("softmax  ", raw.round(3))
print("÷ √4     ", divided.round(3))
asked = 100
in_a_book = (0.75, 0.15, 0.07, 0.03)

# %% normal
n = 20_000
standard = dice.standard_normal(n)
largest, above = {}, {}
for spread in (1, 10, 100):
    weights = softmax(spread * standard)
    largest[spread] = weights.max()
    above[spread] = (weights > 1 / n).sum()
    print(f"{spread:3} · N(0, 1)   max w = {largest[spread]:.4f}", end="   ")
    print(f"w > 1/n: {above[spread]:5}")

# %% slope
for w in (0.5, 0.9, 0.99, 0.9999):
    print(f"w = {w:<6}   w(1 − w) = {w * (1 - w):.4f}")

# %% moves
from qkv.lab.scaling import jacobian_size

rows = []
for d in (4, 16, 64, 256, 1024):
    q, k = dice.standard_normal((300, d)), dice.standard_normal((64, d))
    both = [softmax(q @ k.T), attention_weights(q, k)]
    rows.append([d, *(w.max(-1).mean() for w in both), *(jacobian_size(w).mean() for w in both)])
print("d      max w: q·k  ÷ √d    |∂w/∂s|: q·k   ÷ √d")
for d, *row in rows:
    print(f"{d:<4}{row[0]:14.2f}{row[1]:6.2f}{row[2]:17.3f}{row[3]:7.3f}")
peak = max(rows, key=lambda row: row[3])

# %% head
from qkv.draw.figure_canvas import blank
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
seen = trace.steps(13, 8, "it")
may = np.isfinite(seen.masked[0])
names = [name for name, allowed in zip(seen.keys, may, strict=True) if allowed]
undivided = softmax(seen.scores[0][may])
for place in np.argsort(-seen.weights[0][may])[:3]:
    print(f"{names[place]:5} q·k {seen.scores[0][may][place]:6.2f}", end="   ")
    print(f"w {seen.weights[0][may][place]:.3f}   softmax(q·k) {undivided[place]:.8f}")

# %% all_heads
tops = []
for layer in trace.layers():
    for one in range(9):
        row = trace.steps(layer, one, "it")
        allowed = np.isfinite(row.masked[0])
        tops.append((row.weights[0].max(), softmax(row.scores[0][allowed]).max()))
with_root, without = np.mean(tops, axis=0)

# %% figures
from qkv.draw.head_machine import Machine


def panel(axes, title, x):
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def histograms(lang):
    """Numbers with a wide and with a narrow spread, before and after softmax."""
    before, after, share = {"en": ("before", "after softmax", "share"), "zh": ("之前", "softmax 之后", "份额")}[lang]
    figure = blank((7, 4.6), [], lang)
    for line, (spread, ink) in enumerate(((100, "#d9480f"), (1, "#2166ac"))):
        axes = figure.add_subplot(2, 2, 2 * line + 1)
        axes.hist(spread * standard, 60, color=ink)
        panel(axes, f"{before}: {spread} · N(0, 1)", "")
        axes = figure.add_subplot(2, 2, 2 * line + 2)
        axes.hist(softmax(spread * standard), 60, color=ink, log=True)
        axes.locator_params(axis="x", nbins=4)
        axes.set_ylim(bottom=0.5)
        panel(axes, f"{after}: max {largest[spread]:.2g}", share)
    return figure


def widths(lang):
    """The largest share and what passes the softmax, against d."""
    titles = {"en": ("largest share", "size of ∂w/∂s"), "zh": ("最大的份额", "∂w/∂s 的大小")}[lang]
    figure = blank((7, 2.7), [], lang)
    for place, title in enumerate(titles):
        axes = figure.add_subplot(1, 2, place + 1)
        for kind, (ink, label) in enumerate((("#d9480f", "q·k"), ("#2166ac", "q·k / √d"))):
            axes.plot(
                [row[0] for row in rows], [row[1 + 2 * place + kind] for row in rows], "o-", color=ink, label=label
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks([row[0] for row in rows], [str(row[0]) for row in rows])
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8, frameon=False)
        panel(axes, title, "d")
    return figure


machine = Machine(
    ["人"], q=query, k=keys, key_words=characters, show=("qkv", "scores", "scaled", "weights"), query="人", digits=3
)
real_head = Look(trace, 13, 8, show=("steps",), focus=("it", "cat"))
