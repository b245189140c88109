"""A BERT: words are hidden, and a model that sees both sides guesses them."""

# %% corpus slow
from pathlib import Path
from random import Random
from tempfile import mkdtemp

VOICES = {
    "dog": "barks",
    "cat": "meows",
    "bird": "sings",
    "lion": "roars",
    "cow": "moos",
    "snake": "hisses",
}
SIZES = ["small", "large", "old", "young"]
PLACES = ["in the garden", "at night", "near the river", "on the hill"]
dice, folder = Random(0), Path(mkdtemp())
lines = []
for _ in range(4000):
    animal = dice.choice(list(VOICES))
    size, place = dice.choice(SIZES), dice.choice(PLACES)
    lines.append(f"the {size} {animal} {VOICES[animal]} {place} .\n")
(folder / "animals.txt").write_text("".join(lines), encoding="utf-8")
print("".join(lines[:3]))
kinds, sizes, written = len(VOICES), len(SIZES), len(lines)

# %% train slow
from qkv.train import start

SHAPE = {"width": 64, "n_layer": 2, "context": 16}
run = start(
    "mlm",
    source=str(folder / "animals.txt"),
    out=folder / "run",
    tokenizer="bpe",
    changes=SHAPE | {"steps": 3000, "eval_every": 500},
)


def report(line):
    if "val_loss" in line:
        step, loss = line["step"], line["val_loss"]
        print(f"step {step:4}   validation loss {loss:.3f}")


done = run.train(report)
parameters, steps = run.model.count(), run.settings.steps
share = run.settings.mask_share
vocabulary = run.model.config.vocab

# %% fill slow
import qkv
from qkv.generation import fill

model, tokenizer = qkv.load(folder / "run")
SENTENCES = (
    "the small [MASK] barks at night .",
    "the small dog [MASK] at night .",
    "the [MASK] dog barks at night .",
    "the small [MASK] [MASK] at night .",
)
guesses = []
for sentence in SENTENCES:
    print(sentence)
    for guess in fill(model, tokenizer, sentence, k=4):
        named = [[word.strip(), p] for word, p in guess]
        print("   ", "  ".join(f"{word} {p:.2f}" for word, p in named))
        guesses.append(named)

# %% figures
from tools.book.figures import Look, demo

minilm = demo("animal-minilm")
LAYER, HEAD = 2, 8
row = minilm.row(LAYER, HEAD, "it")
ahead = float(row[minilm.place("it") + 1 :].sum())
both_ways = Look(minilm, LAYER, HEAD, show=("map",), focus=("it", "tired"))
