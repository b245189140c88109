"""Look into heads: what they do on a text, what resting means, and what a picture doesn't say."""

# %% find
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
for layer, head, weight in trace.find("it", "cat", most=4):
    print(f"layer {layer:2}, head {head}   it → cat  {weight:.2f}")
heads = trace.n_layer() * trace.n_head()
strongest = trace.find("it", "cat")[0][2]

# %% previous
layer, head = 16, 0
map_ = trace.map(layer, head)
before = [map_[i, i - 1] for i in range(1, len(map_))]
print([round(float(weight), 2) for weight in before])
mean_before = sum(before) / len(before)

# %% sink
import numpy as np

sink = trace.map(18, 8)
on_first = sink[1:, 0].mean()
# Three heads share a value: head 8 has the last. | 三个头共用一份值，第 8 头用最后一份
values = trace.call(18).v[0, 2].norm(dim=-1).numpy()
words = trace.tokens().pieces
for word, length in zip(words, values, strict=True):
    print(f"{word.strip():8} length of its value {length:6.2f}")
others = float(np.mean(values[1:]))

# %% recorded
import re
from pathlib import Path

root = next(up for up in Path(__file__).resolve().parents if (up / "docs/lab.md").is_file())
told = (root / "docs/patterns.md").read_text(encoding="utf-8").replace("\n", " ")
head_name, induction, even = re.search(
    r"head ([\d.]+) \(layers.*?\) gives ([\d.]+) where an even head gets ([\d.]+)\.", told
).groups()
pattern = (
    r"in ([\d.]+) of (\d+) English cases \(best fixed rule ([\d.]+)\) and ([\d.]+) of (\d+) Chinese ones \(([\d.]+)\)"
)
english, english_cases, english_rule, chinese, chinese_cases, chinese_rule = map(
    float, re.search(pattern, told).groups()
)
induction, even = float(induction), float(even)

# %% without
import qkv
from qkv.commands.translate import DEMO
from qkv.generation import translate

model, tokenizer = qkv.load(DEMO)
TEXT = "15 Nov 2026"
print("whole        ", translate(model, tokenizer, [TEXT])[0])
changed = {}
for head in ("0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"):
    with qkv.edit(model, f"cross.{head}"):
        changed[head] = translate(model, tokenizer, [TEXT])[0]
    print("without", head, " ", changed[head])
found = trace.patterns()
sinks, unnamed = len(found.named("first")), len(found.named("none"))
harmless = sum(said == "2026-11-15" for said in changed.values())

# %% figures
previous_map = Look(trace, 16, 0, show=("map",))
sink_map = Look(trace, 18, 8, show=("map",))
it_cat = Look(trace, 13, 8, show=("map", "lines"), focus=("it", "cat"))
