"""An LSTM against attention over distance: how far back can each remember?"""

# %% task
from qkv.lab.distance import recall

ids, word = recall(gap=6, symbols=8, seed=0, step=0, rows=3)
print(ids)
print("to be said:", word)

# %% measured slow
from qkv.lab import run

sizes = {"gaps": (4, 16, 64), "steps": 200, "symbols": 8, "width": 32}
rows = run("distance", **sizes)["rows"]
for row in rows:
    print(f"gap {row['gap']:3}  {row['kind']:9}  right {row['accuracy']:.0%}")
chance = 1 / sizes["symbols"]

# %% recorded
import re
from pathlib import Path

root = next(up for up in Path(__file__).resolve().parents if (up / "docs").is_dir())
lab = (root / "docs" / "lab.md").read_text(encoding="utf-8").replace("\n", " ")
lstm, far, weight = re.search(
    r"the LSTM is right in ([\d %,]+) % of unseen rows at gaps of ([\d, ]+) .*? with (\d+) % of the question", lab
).groups()
lstm = [int(part.strip(" %")) / 100 for part in lstm.split(",")]
far = [int(part) for part in far.split(",")]
weight = int(weight) / 100
even = 1 / (far[-1] + 2)

# %% gradient
import torch

torch.manual_seed(0)


def reach(gap, width=32):
    # how much the first input moves the last output | 第一个输入能让最后的输出变多少
    x = torch.randn(1, gap + 2, width, requires_grad=True)
    lstm = torch.nn.LSTM(width, width, batch_first=True)
    lstm(x)[0][0, -1].sum().backward()
    return x.grad[0, 0].norm().item()


reaches = {gap: reach(gap) for gap in (4, 16, 64)}
for gap, moved in reaches.items():
    print(f"gap {gap:3}   gradient {moved:.1e}")

# %% figures
from qkv.lab.report import INK, canvas, panel


def recalled(lang):
    x, y = ("gap", "right") if lang == "en" else ("间隔", "答对")
    names = ("LSTM", "attention" if lang == "en" else "注意力")
    figure = canvas(1, 1, each=(5.6, 2.8), words=[x, y, *names])
    axes = panel(figure, 1, 1, 1, title="", x=x, y=y)
    for kind, ink, name in zip(("lstm", "attention"), (INK[1], INK[0]), names, strict=True):
        mine = [row for row in rows if row["kind"] == kind]
        axes.plot([row["gap"] for row in mine], [row["accuracy"] for row in mine], "o-", color=ink, label=name)
    axes.axhline(chance, color=INK[4], linestyle=":", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xticks([row["gap"] for row in rows[::2]], [str(row["gap"]) for row in rows[::2]])
    axes.set_ylim(0, 1.05)
    axes.legend(fontsize=8, frameon=False)
    return figure
