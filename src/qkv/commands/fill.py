"""qkv fill: let a trained BERT guess hidden words."""

import argparse

from .. import grid
from ..words import both
from .opening import model_arguments, need_text, open_model

EXAMPLES = [
    'qkv fill "the [MASK] sat on the mat" --model runs/mlm-mybook',
    'qkv fill "Paris is the [MASK] of France." --model ./my-bert-folder',
    'qkv fill "我[MASK]北京" --model runs/mlm-mybook --top 10',
]


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("text", nargs="?", help=both("a text with [MASK] in it", "含有 [MASK] 的文本"))
    model_arguments(parser)
    parser.add_argument(
        "--top", type=int, default=5, metavar="K", help=both("how many guesses (5)", "显示几个猜测（5）")
    )


def run(options: argparse.Namespace) -> None:
    """For each [MASK], the likeliest words with their probabilities."""
    text = need_text(options.text, EXAMPLES[0])
    model, tokenizer = open_model(options.model, "fill", yes=options.yes)
    from ..model.generate import fill

    for number, guesses in enumerate(fill(model, tokenizer, text, k=options.top)):
        print(f"[MASK] {number + 1}")
        wide = max(grid.width(word) for word, _ in guesses)
        for word, probability in guesses:
            print(f"  {grid.left(word, wide)}  {probability:6.1%}  {'█' * round(30 * probability)}")
