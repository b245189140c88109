"""Train a GPT on your own text: the command, the same in Python, going on with a run, and what compiling brings."""

# %% loss
import math

characters = 66
even = math.log(characters)
for chance in (1 / characters, 0.1, 0.5, 0.9):
    print(f"probability {chance:.3f}   loss {-math.log(chance):.3f}")

# %% train slow
from pathlib import Path
from tempfile import mkdtemp

from qkv.train import start

folder = Path(mkdtemp())
run = start(
    "lm",
    source="shakespeare",  # or a file | 也可以是文件
    out=folder / "run",
    changes={"steps": 300, "eval_every": 50},
)


losses = []


def report(line):
    losses.append(round(line["loss"], 3))
    if "val_loss" in line:
        step, loss = line["step"], line["val_loss"]
        print(f"step {step:3}   validation loss {loss:.3f}")


done = run.train(report)
parameters, best = run.model.count(), done["best_loss"]
batch, context = run.settings.batch, run.model.config.context
steps, read = run.settings.steps, run.settings.steps * batch * context

# %% sample slow
import qkv
from qkv.generation import complete

model, tokenizer = qkv.load(folder / "run")
prompts = ["ROMEO:", "KING RICHARD", "What is"]
texts = complete(model, tokenizer, prompts, most=50, temperature=0.7)
for prompt, text in zip(prompts, texts, strict=True):
    print(prompt + text, end="\n\n")

# %% resume slow
import torch

from qkv.train import resume

SMALL = {"width": 32, "n_layer": 2, "steps": 40, "checkpoint_every": 10}


def small(name):
    out = folder / name
    return start("lm", source="shakespeare", out=out, changes=SMALL)


whole, broken = small("whole"), small("broken")
whole.train()


def power_cut(line):
    if line["step"] == 25:
        raise RuntimeError("power cut")


try:
    broken.train(power_cut)
except RuntimeError as error:
    print(error)
again = resume(folder / "broken")
went_on = again.state["step"]
print("goes on after step", went_on)
again.train()
pairs = zip(whole.model.parameters(), again.model.parameters(), strict=True)
same = all(torch.equal(a, b) for a, b in pairs)
print("every weight the same, bit for bit:", same)

# %% measured
import re
from pathlib import Path

root = next(up for up in Path(__file__).resolve().parents if (up / "benchmarks").is_dir())
results = (root / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
log = (root / "docs" / "LOG.md").read_text(encoding="utf-8")


def row(begins):
    """(ours, peer, ratio) of a row of benchmarks/RESULTS.md."""
    found = re.search(rf"^\| {re.escape(begins)}[^|]*\|([^|]+)\|([^|]+)\|([^|]+)\|", results, re.MULTILINE)
    return tuple(float(re.match(r"[\d.e+-]+", cell.strip())[0]) for cell in found.groups())


small = row("GPT-2, 4 layers, width 128, context 64, batch 12: ours")
large = row("GPT-2, 6 layers, width 384, context 256, batch 16: ours")
recipe = row("seconds to the recipe's final validation loss")
goal = float(re.search(r"seconds to the recipe's[^\n]*to ([\d.]+) \|", results)[1])
machine = re.search(r"## Training\n\n(.*)\.\n", results)[1]
step = re.search(
    r"takes (\d+) ms a step eager and (\d+) compiled by our loop; transformers' takes (\d+) and (\d+)", log
)
eager, compiled, their_eager, their_compiled = map(int, step.groups())

# %% recorded
# two cores with AVX-512, November 2026 | 两核，AVX-512，2026 年 11 月测
# PyTorch 2.13, float32 | PyTorch 2.13，float32
nanogpt = {  # tokens/s | 每秒词元数
    "4 × 128": {"plain": 12300, "fused AdamW": 30000, "compiled": 31100},
    "6 × 384": {"plain": 2780, "compiled": 2780},
}
attention = {  # ms, 1,024 tokens, 8 heads | 毫秒，1,024 个词元，8 个头
    "forward": {"plain": 113, "fused": 16},
    "backward": {"plain": 329, "fused": 62},
}
for what, speeds in nanogpt.items():
    for how, speed in speeds.items():
        faster = speed / speeds["plain"]
        print(f"layers × width {what}  {how:11} {speed:6,}  × {faster:.1f}")
for what, times in attention.items():
    faster = times["plain"] / times["fused"]
    print(f"attention alone, {what:8}  fused × {faster:.1f}")

# %% figures
from qkv.lab.report import INK, canvas, panel


def curve(lang):
    x, y = ("step", "loss") if lang == "en" else ("步", "损失")
    figure = canvas(1, 1, each=(6.4, 2.7), words=[x, y])
    axes = panel(figure, 1, 1, 1, title="", x=x, y=y)
    axes.plot(range(1, len(losses) + 1), losses, color=INK[0], linewidth=1)
    axes.axhline(even, color=INK[4], linestyle=":", linewidth=1)
    axes.set_ylim(bottom=0)
    return figure
