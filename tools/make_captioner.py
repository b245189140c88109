"""Make the captioner that ships with qkv: draw digits and shapes, train a translator from pictures to words, keep its best
weights in float16, and say how good it is on pictures it never saw, and on fonts it never saw.

    .venv/bin/python tools/make_captioner.py

Takes some five minutes of one core and writes src/qkv/demo/pictures.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from safetensors.torch import load_file, save_file

from qkv.model.generation import translate
from qkv.model.weights import load
from qkv.runfiles import fingerprint
from qkv.text import pictures
from qkv.train.run import start

DEMO = Path(__file__).resolve().parent.parent / "src" / "qkv" / "demo" / "pictures"
SIZES = dict(
    width=64, n_head=4, n_layer=2, position="learned", context=80, steps=1600, batch=32, eval_every=250, eval_batches=8
)
DRAWN = 12_000  # pictures to learn from, each told in both languages
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
DEJAVU = ["DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSerif"]
KNOWN = [
    *DEJAVU,
    "DejaVuSerif-Italic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
    "cmr10",
    "cmtt10",
    "cmb10",
]
UNKNOWN = ["DejaVuSerif-Bold", "DejaVuSans-BoldOblique", "STIXGeneralBolIta", "cmss10"]
DIGITS = "zero one two three four five six seven eight nine".split()
THINGS = {
    **{
        str(i): (f"{'an' if i == 8 else 'a'} {word}", f"数字{'零一二三四五六七八九'[i]}")
        for i, word in enumerate(DIGITS)
    },
    "circle": ("a circle", "一个圆形"),
    "square": ("a square", "一个方形"),
    "triangle": ("a triangle", "一个三角形"),
    "cross": ("a cross", "一个十字"),
}
CANVAS = 72


def picture(dice: np.random.Generator, fonts: list[str] = KNOWN) -> tuple[np.ndarray, tuple[str, str]]:
    """A picture in shades of grey with one thing or two beside each other, and what is to be seen, in both languages."""
    names = [str(name) for name in dice.choice(list(THINGS), dice.choice([1, 2]))]
    things = [thing(name, dice, fonts) for name in names]
    if len(things) == 2:
        gap = np.zeros((CANVAS, int(dice.integers(3, 12))))
        sheet = np.concatenate([trimmed(things[0]), gap, trimmed(things[1])], axis=1)
    else:
        (sheet,) = things
    sheet = np.pad(sheet, 4)
    shades = sheet * dice.uniform(0.5, 1.0) + dice.normal(0, 0.02, sheet.shape)
    shades = 1 - shades if dice.random() < 0.7 else shades  # black on white, or chalk
    told = tuple(word.join(THINGS[name][i] for name in names) for i, word in enumerate((" and ", "和")))
    return shades, (told[0], told[1])


def thing(name: str, dice: np.random.Generator, fonts: list[str]) -> np.ndarray:
    """One thing in ink on a sheet, a little turned."""
    sheet = Image.new("L", (CANVAS, CANVAS))
    pen, middle = ImageDraw.Draw(sheet), CANVAS / 2
    if name.isdigit():
        font = ImageFont.truetype(str(FONTS / f"{dice.choice(fonts)}.ttf"), int(dice.integers(34, 60)))
        pen.text((middle, middle), name, 255, font, anchor="mm", stroke_width=int(dice.integers(0, 2)))
    else:
        x, y = (dice.uniform(13, 26) * np.array([1, dice.uniform(0.93, 1.07)])).tolist()
        box = (middle - x, middle - y, middle + x, middle + y)
        filled = 255 if dice.random() < 0.5 else 0
        width = int(dice.integers(4, 8))
        if name == "circle":
            pen.ellipse(box, filled, 255, width)
        elif name == "square":
            pen.rectangle(box, filled, 255, width)
        elif name == "triangle":
            pen.polygon([(middle, box[1]), (box[2], box[3]), (box[0], box[3])], filled, 255, width)
        else:
            pen.line((box[0], middle, box[2], middle), 255, width + 2)
            pen.line((middle, box[1], middle, box[3]), 255, width + 2)
    return np.asarray(sheet.rotate(dice.uniform(-9, 9), Image.Resampling.BILINEAR)) / 255


def trimmed(sheet: np.ndarray) -> np.ndarray:
    """Without the empty columns at its sides."""
    used = np.flatnonzero((sheet > 0.2).any(0))
    return sheet[:, used[0] : used[-1] + 1]


def pairs(seed: int, count: int, fonts: list[str] = KNOWN) -> list[tuple[str, str]]:
    """What the captioner reads and should say."""
    dice = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        shades, told = picture(dice, fonts)
        pixels = pictures.small(pictures.cut(shades))
        made += [(pictures.source(pixels, lang), words) for lang, words in zip(pictures.TOLD_IN, told, strict=True)]
    return made


def right(model: object, tokenizer: object, asked: list[tuple[str, str]]) -> float:
    """The share that is told word for word."""
    said = [
        words
        for i in range(0, len(asked), 200)
        for words in translate(model, tokenizer, [s for s, _ in asked[i : i + 200]])
    ]
    return sum(a == b for a, (_, b) in zip(said, asked, strict=True)) / len(asked)


def main() -> None:
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pictures.tsv"
        file.write_text("".join(f"{source}\t{told}\n" for source, told in pairs(0, DRAWN)), encoding="utf-8")
        print(f"drawn after {time.process_time() - begun:.0f} s of one processor", flush=True)
        run = start("translate", out=Path(folder) / "run", pairs=str(file), tokenizer="characters", changes=SIZES)
        state = run.train(lambda line: print(line, flush=True) if "val_loss" in line else None)
        print(f"trained after {time.process_time() - begun:.0f} s of one processor", flush=True)
        best = run.folder / "checkpoints" / f"{state['best_step']:06d}"
        shutil.rmtree(DEMO, ignore_errors=True)
        place = DEMO / "checkpoints" / best.name
        place.mkdir(parents=True)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(run.folder / name, DEMO / name)
        record = json.loads((DEMO / "config.json").read_text(encoding="utf-8"))
        record["data"]["source"] = file.name  # drawn by this script, and not kept
        (DEMO / "config.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        save_file({k: v.half() for k, v in load_file(best / "model.safetensors").items()}, place / "model.safetensors")
        kept = {"step": state["best_step"], "best_step": state["best_step"], "best_loss": state["best_loss"]}
        kept["files"] = {"model.safetensors": fingerprint(place / "model.safetensors")}
        (place / "state.json").write_text(json.dumps(kept) + "\n", encoding="utf-8")
    judge()


def judge() -> None:
    """Say how good what ships is."""
    model, tokenizer = load(DEMO)
    size = sum(file.stat().st_size for file in DEMO.rglob("*") if file.is_file())
    print(f"{DEMO.name}: {size / 1e3:.0f} kB. Told word for word right:")
    for name, asked in (("unseen pictures", pairs(1, 500)), ("unseen fonts", pairs(2, 500, UNKNOWN))):
        two = [pair for pair in asked if " and " in pair[1] or "和" in pair[1]]
        one = [pair for pair in asked if pair not in two]
        shares = (f"{right(model, tokenizer, part):.1%} of {len(part)}" for part in (one, two))
        print("{}: one thing {}, two things {}".format(name, *shares))


if __name__ == "__main__":
    judge() if "--judge" in sys.argv else main()
