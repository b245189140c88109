"""Draw the pictures of docs/mixers.md: a sentence in a head of attention, retention, Mamba-2 and the delta rule.

    python tools/make_mixers_docs.py FOLDER [--steps 300]      FOLDER stores the runs; writes docs/mixers*.png

Each model has four layers and is trained on tiny Shakespeare (`qkv data get shakespeare`), on the same batches. The picture
shows the head of its last layer that looks furthest.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import qkv
from qkv.draw.figure_canvas import COLOURS, SIGNED, blank, label, paint, save
from qkv.i18n import say
from qkv.tracing.views.head_ranking import head_to_show
from qkv.train import run as runs

MIXERS = ("attention", "retention", "mamba2", "delta")
NAMES = {"attention": "attention", "retention": "retention", "mamba2": "Mamba-2", "delta": "gated delta"}
CHINESE = {"attention": "注意力", "retention": "保留机制", "mamba2": "Mamba-2", "delta": "门控 delta"}
TEXT = "My lord, my lord is come"
DOCS = Path(__file__).resolve().parents[1] / "docs"


def load_or_train(mixer: str, folder: Path, text: str, steps: int) -> tuple[Any, Any]:
    """Load the run of a mixer, and train it first if missing."""
    out = folder / mixer
    if not out.exists():
        runs.start("lm", out=out, source=text, changes={"mixer": mixer, "steps": steps}).train()
    return qkv.load(out)


def main() -> None:
    """Train missing models and draw in both languages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text", default="shakespeare", help="a name of `qkv data`, or a file")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    maps = []
    for mixer in MIXERS:
        model, tokenizer = load_or_train(mixer, options.folder, options.text, options.steps)
        trace = qkv.trace(model, TEXT, tokenizer)
        part, layer = trace.parts[0], trace.layers()[-1]
        _, head = head_to_show(trace, part, layer)
        maps.append((mixer, f"{layer}.{head}", trace.map(layer, head), trace.tokens().shown))
    for lang, names, file in (("en", NAMES, "mixers.png"), ("zh", CHINESE, "mixers.zh-CN.png")):
        figure = blank((12.5, 12.5), list(CHINESE.values()), lang)
        for at, (mixer, head_name, table, tokens) in enumerate(maps):
            axes = figure.add_subplot(2, 2, at + 1)
            top = float(np.abs(table).max())
            scale = dict(top=top, bottom=0.0, colours=COLOURS)
            if mixer != "attention":
                scale = dict(top=top, bottom=-top, colours=SIGNED)
            image = paint(axes, table, np.tri(len(table), dtype=bool), **scale)
            label(axes, tokens, tokens)
            axes.set_title(f"{names[mixer]} {head_name}", fontsize=11, loc="left")
            figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02)
        figure.axes[0].set_ylabel(say("looks (query)", lang))
        save(figure, DOCS / file)


if __name__ == "__main__":
    main()
