"""A translator: an encoder reads, a decoder writes, cross-attention stands between."""

# %% numbers slow
from pathlib import Path
from random import Random
from tempfile import mkdtemp

DIGITS, PLACES = "零一二三四五六七八九", ["千", "百", "十", ""]


def spoken(number):
    said = ""
    for digit, place in zip(f"{number:04}", PLACES, strict=True):
        said += DIGITS[int(digit)] + place if digit != "0" else "零"
    while "零零" in said:
        said = said.replace("零零", "零")
    return said.strip("零")


numbers = list(range(1, 10_000))
Random(0).shuffle(numbers)
learned, unseen = numbers[:9000], numbers[9000:]
folder = Path(mkdtemp())
lines = [f"{spoken(n)}\t{n}\n" for n in learned]
(folder / "numbers.tsv").write_text("".join(lines), encoding="utf-8")
print("".join(lines[:4]))

# %% train slow
from qkv.train import start

run = start(
    "translate",
    pairs=str(folder / "numbers.tsv"),
    out=folder / "run",
    changes={"width": 64, "steps": 500, "eval_every": 100},
)


def report(line):
    if "val_loss" in line:
        step, loss = line["step"], line["val_loss"]
        print(f"step {step:3}   validation loss {loss:.3f}")


done = run.train(report)
parameters, steps = run.model.count(), run.settings.steps
layers = run.model.config.layers

# %% test slow
import qkv
from qkv.generation import translate

model, tokenizer = qkv.load(folder / "run")
asked = unseen[:500]
said = translate(model, tokenizer, [spoken(n) for n in asked])
right = sum(answer == str(n) for answer, n in zip(said, asked, strict=True))
tried, seen, left = len(asked), len(learned), len(unseen)
print(f"{right} of {tried} right")
for answer, n in zip(said[:4], asked, strict=False):
    print(spoken(n), "→", answer)

# %% demo
import qkv
from qkv.commands.translate import DEMO

dates, spelling = qkv.load(DEMO)
trace = qkv.trace(dates, "15 Nov 2026", spelling)
written = trace.tokens("cross").pieces
given = trace.tokens("cross", keys=True).pieces
weights = trace.map(1, 2, part="cross")
for at in (2, 3, 6, 8, 9):
    key = weights[at].argmax()
    before, weight = "".join(written[:at]), weights[at, key]
    print(f"{before:9} then {written[at]}  from {given[key]}  {weight:.2f}")
size = dates.count()
asks, reads = len(written), len(given)
v_weight, hyphen = weights[6].max(), weights[7].max()

# %% unseen
from qkv.generation import translate
from qkv.text import date_pair

pairs = [date_pair(99, i, "unseen") for i in range(200)]
answers = translate(dates, spelling, [source for source, _ in pairs])
targets = [target for _, target in pairs]
correct = sum(a == b for a, b in zip(answers, targets, strict=True))
for source, target in pairs[:4]:
    print(source, "→", target)
print(f"{correct} of {len(pairs)} right")

# %% words
from tools.book.figures import Look, demo

weather = demo("weather-opus-zh-en")
aligned = weather.map(4, 3, part="cross")
targets = weather.tokens("cross").pieces
sources = weather.tokens("cross", keys=True).pieces
for word in (" nice", " day", " want", " go", "."):
    at = targets.index(word)
    best = aligned[at].argmax()
    source, weight = sources[best].strip(), aligned[at, best]
    print(f"{word.strip():5} ← {source}  {weight:.2f}")

end = aligned[targets.index(".")].max()
nice = aligned[targets.index(" nice"), sources.index("真好")]

# %% figures
date_map = Look(trace, 1, 2, part="cross", show=("map",), focus=("6", "6"))
weather_lines = Look(weather, 4, 3, part="cross", show=("lines", "map"), layers=(4,))
