"""Make the captioner that ships with qkv: draw digits and shapes, train a translator from pictures to words, store its best
weights in float16, and print its accuracy on unseen pictures and unseen fonts.

    .venv/bin/python tools/make_captioner.py            about 8 minutes on one core; writes src/qkv/demo/pictures
    .venv/bin/python tools/make_captioner.py --judge    evaluate the one that ships

The shipped one (478 kB) captions 100 % of unseen pictures with one shape and 96.1 % of those with two exactly (227 and 750
pictures, each in both languages; in unseen fonts 99.8 and 97.3 %). Over 99 % of a noun's attention is in the box around its
shape, which is 30 % of the picture. No test picture is in the training set. The loss of `Pointing` teaches this attention:
trained on words alone, 94.0 % of two shapes were right and 50 % of the attention was in the box.
"""

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from safetensors.torch import load_file, save_file
from tokenizers import Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Library
from torch import Tensor

from qkv.attention import record
from qkv.disk.run_folder import fingerprint
from qkv.formats.model_files import load
from qkv.generation.decoding import translate
from qkv.text import Tokenizer, picture_tokens
from qkv.text.library_tokenizer import add_special
from qkv.tracing.study.caption_attention import caption
from qkv.train.run import start
from qkv.train.tasks import Translation

DEMO = Path(__file__).resolve().parent.parent / "src" / "qkv" / "demo" / "pictures"
SIZES = dict(
    width=64, n_head=4, n_layer=3, n_decoder_layer=1, window=20, position="learned", context=132,
    steps=2700, batch=32, eval_every=300, eval_batches=8,
)  # fmt: skip
N_PICTURES = 30_000  # training pictures, each captioned in both languages
TRAINING_SEED = 0  # the seed of these pictures
N_TEST, N_ATTENTION = 1000, 200  # test pictures: captioned, and evaluated word by word
NOUNS = (1, 4)  # indices of the nouns, in both languages: a seven and a square, 数字 七 和 一个 方形
POINTING = 0.3  # weight of the attention loss of a noun
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
DEJAVU = ["DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSerif"]
TRAINING_FONTS = [
    *DEJAVU,
    "DejaVuSerif-Italic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
    "cmr10",
    "cmtt10",
    "cmb10",
]
UNSEEN_FONTS = ["DejaVuSerif-Bold", "DejaVuSans-BoldOblique", "STIXGeneralBolIta", "cmss10"]
DIGITS = "zero one two three four five six seven eight nine".split()
SHAPES = {
    **{
        str(i): (f"{'an' if i == 8 else 'a'} {word}", f"数字{'零一二三四五六七八九'[i]}")
        for i, word in enumerate(DIGITS)
    },
    "circle": ("a circle", "一个圆形"),
    "square": ("a square", "一个方形"),
    "triangle": ("a triangle", "一个三角形"),
    "cross": ("a cross", "一个十字"),
}
WORD = " ?[a-z]+|数字|一个|三角形|[圆方]形|十字|[零一二三四五六七八九和]"
CANVAS = 72


@dataclass(frozen=True)
class Drawing:
    """A greyscale picture with one or two shapes side by side, and its captions in both languages."""

    shades: np.ndarray
    descriptions: tuple[str, str]
    boundary: float | None  # end of the first shape, as a share of the inked width

    def boxes(self, pixels: np.ndarray) -> list[np.ndarray]:
        """Return the patches around each shape of the downscaled picture, (8, 16); all False without a second shape."""
        inked = np.flatnonzero(pixels.any(0))
        middle = inked[0] + (inked[-1] + 1 - inked[0]) * (self.boundary or 1.0)
        boxes = []
        for columns in (inked[inked < middle], inked[inked >= middle]):
            rows = np.flatnonzero(pixels[:, columns].any(1))
            box = np.zeros((picture_tokens.ROWS, picture_tokens.COLUMNS), bool)
            if len(columns):
                box[rows[0] // 2 : rows[-1] // 2 + 1, columns[0] // 2 : columns[-1] // 2 + 1] = True
            boxes.append(box)
        return boxes


def draw_picture(dice: np.random.Generator, fonts: list[str] = TRAINING_FONTS) -> Drawing:
    """Draw a picture, with two shapes three times out of four."""
    names = [str(name) for name in dice.choice(list(SHAPES), 1 if dice.random() < 0.25 else 2)]
    shapes = [trim(draw_shape(name, dice, fonts)) for name in names]
    gap = np.zeros((CANVAS, int(dice.integers(3, 12))))
    sheet = np.pad(shapes[0] if len(shapes) == 1 else np.concatenate([shapes[0], gap, shapes[1]], axis=1), 4)
    shades = sheet * dice.uniform(0.5, 1.0) + dice.normal(0, 0.02, sheet.shape)
    shades = 1 - shades if dice.random() < 0.7 else shades  # dark on light, or light on dark
    descriptions = tuple(word.join(SHAPES[name][i] for name in names) for i, word in enumerate((" and ", "和")))
    ends = (shapes[0].shape[1] + gap.shape[1] / 2) / (sheet.shape[1] - 8) if len(shapes) == 2 else None
    return Drawing(shades, (descriptions[0], descriptions[1]), ends)


def draw_shape(name: str, dice: np.random.Generator, fonts: list[str]) -> np.ndarray:
    """Draw a shape, slightly rotated."""
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


def trim(sheet: np.ndarray) -> np.ndarray:
    """Remove the empty columns at both sides."""
    used = np.flatnonzero((sheet > 0.2).any(0))
    return sheet[:, used[0] : used[-1] + 1]


def make_pictures(seed: int, count: int, fonts: list[str] = TRAINING_FONTS) -> Iterator[tuple[np.ndarray, Drawing]]:
    """Yield pictures, each with the pixels that the captioner reads."""
    dice = np.random.default_rng(seed)
    for _ in range(count):
        drawing = draw_picture(dice, fonts)
        yield picture_tokens.downscale(picture_tokens.crop(drawing.shades)), drawing


def make_tokenizer() -> Tokenizer:
    """Return a tokenizer with a token for each sign and each word, so that a word is one row of cross-attention."""
    pieces = sorted(
        {cut for each in SHAPES.values() for description in each for cut in re.findall(WORD, description)}
        | {" and", "和"}
    )
    pieces += [f" {word}" for word in ("a", "an")]  # before the second shape
    names = [*picture_tokens.SIGNS, *picture_tokens.LANGUAGE_SIGNS.values(), *pieces]
    library = Library(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Split(Regex(f"{WORD}|."), "isolated")
    library.decoder = decoders.Fuse()
    return Tokenizer(library, add_special(library, ("pad", "bos", "eos", "unk")))


class Pointing(Translation):
    """A translator with an attention loss: the attention of nouns outside the box of their shape is penalized."""

    def __init__(self, plain: Translation, boxes: dict[bytes, np.ndarray]) -> None:
        super().__init__(plain.train, plain.held_out, plain.tokenizer, plain.examples)
        self.boxes = boxes

    def loss(self, model: Any, batch: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        if not torch.is_grad_enabled():  # evaluation measures words alone
            return super().loss(model, batch)
        with record() as calls:
            loss, count = super().loss(model, batch)
        cross = calls[-1]
        shares = (cross.q @ cross.k.mT * cross.scale).softmax(-1).mean(1)  # (B, M, 1 + 128 + end)
        signs = batch[0][:, 1:-1].to(torch.uint8).numpy()
        boxes = torch.from_numpy(np.stack([self.boxes[row.tobytes()] for row in signs]))  # (B, 2, 128)
        nouns = [noun for noun in NOUNS if noun < shares.shape[1]]
        shares_in_box = (shares[:, nouns, 1:-1] * boxes[:, : len(nouns)]).sum(-1)  # (B, nouns)
        has_box = boxes[:, : len(nouns)].any(-1)
        return loss - POINTING * shares_in_box[has_box].log().sum(), count


def main() -> None:
    start_time = time.process_time()
    boxes = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pictures.tsv"
        with file.open("w", encoding="utf-8") as lines:
            for pixels, drawing in make_pictures(TRAINING_SEED, N_PICTURES):
                around = np.stack([box.T.ravel() for box in drawing.boxes(pixels)])
                boxes[bytes(map(picture_tokens.SIGNS.index, picture_tokens.signs(pixels)))] = around
                lines.writelines(
                    f"{source}\t{description}\n" for source, description in both_languages(pixels, drawing)
                )
        print(f"drawn after {time.process_time() - start_time:.0f} s of one processor", flush=True)
        run = start("translate", out=Path(folder) / "run", pairs=str(file), tokenizer=make_tokenizer(), changes=SIZES)
        assert isinstance(run.task, Translation)
        run.task = Pointing(run.task, boxes)
        state = run.train(lambda line: print(line, flush=True) if "val_loss" in line else None)
        print(f"trained after {time.process_time() - start_time:.0f} s of one processor", flush=True)
        best = run.folder / "checkpoints" / f"{state['best_step']:06d}"
        shutil.rmtree(DEMO, ignore_errors=True)
        checkpoint = DEMO / "checkpoints" / best.name
        checkpoint.mkdir(parents=True)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(run.folder / name, DEMO / name)
        record = json.loads((DEMO / "config.json").read_text(encoding="utf-8"))
        record["data"]["source"] = file.name  # drawn by this script, not stored
        (DEMO / "config.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        save_file(
            {k: v.half() for k, v in load_file(best / "model.safetensors").items()}, checkpoint / "model.safetensors"
        )
        state_json = {"step": state["best_step"], "best_step": state["best_step"], "best_loss": state["best_loss"]}
        state_json["files"] = {"model.safetensors": fingerprint(checkpoint / "model.safetensors")}
        (checkpoint / "state.json").write_text(json.dumps(state_json) + "\n", encoding="utf-8")
    evaluate()


def evaluate() -> None:
    """Print the accuracy of the shipped captioner on pictures outside of the training set."""
    model, tokenizer = load(DEMO)
    size = sum(file.stat().st_size for file in DEMO.rglob("*") if file.is_file())
    learned = {picture_tokens.signs(pixels) for pixels, _ in make_pictures(TRAINING_SEED, N_PICTURES)}
    print(f"{DEMO.name}: {size / 1e3:.0f} kB. Told word for word right:")
    for name, seed, fonts in (("unseen pictures", 1, TRAINING_FONTS), ("unseen fonts", 2, UNSEEN_FONTS)):
        unseen = [each for each in make_pictures(seed, N_TEST, fonts) if picture_tokens.signs(each[0]) not in learned]
        print(f"{name}:")
        for number, subset in (
            ("one thing ", [each for each in unseen if each[1].boundary is None]),
            ("two things", [each for each in unseen if each[1].boundary is not None]),
        ):
            examples = [(source, description) for each in subset for source, description in both_languages(*each)]
            print(f"  {number}  {accuracy(model, tokenizer, examples):.1%} of {len(examples)}")
        on, even = np.mean([attention_in_box(model, tokenizer, *each) for each in subset[:N_ATTENTION]], axis=0)
        print(f"  of two things, {on:.0%} of a noun's attention is on its own, which covers {even:.0%} of the picture")


def both_languages(pixels: np.ndarray, drawing: Drawing) -> list[tuple[str, str]]:
    """Return (source, caption) in both languages."""
    return [
        (picture_tokens.source(pixels, lang), description)
        for lang, description in zip(picture_tokens.LANGUAGE_SIGNS, drawing.descriptions, strict=True)
    ]


def accuracy(model: Any, tokenizer: Any, examples: list[tuple[str, str]]) -> float:
    """Return the share of captions that are exactly right."""
    predictions = [
        prediction
        for i in range(0, len(examples), 200)
        for prediction in translate(model, tokenizer, [source for source, _ in examples[i : i + 200]])
    ]
    return sum(a == b for a, (_, b) in zip(predictions, examples, strict=True)) / len(examples)


def attention_in_box(model: Any, tokenizer: Any, pixels: np.ndarray, drawing: Drawing) -> tuple[float, float]:
    """Return the mean share of a noun's attention in the box around its shape, and the share of uniform attention."""
    shares = []
    for lang in picture_tokens.LANGUAGE_SIGNS:
        words = caption(model, tokenizer, pixels, lang).words
        for noun, box in zip(NOUNS, drawing.boxes(pixels), strict=True):
            if noun < len(words):
                shares.append((words[noun].patches[box].sum(), box.mean()))
    on, even = np.mean(shares, axis=0)
    return float(on), float(even)


if __name__ == "__main__":
    evaluate() if "--judge" in sys.argv else main()
