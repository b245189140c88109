"""qkv fill: predict masked words with a trained BERT."""

import argparse
import sys
from typing import TYPE_CHECKING

from ..i18n import Problem, _, echo, say
from ..terminal import text_grid
from .model_options import model_arguments, open_model
from .text_input import answer_lines, read_lines, text_arguments

if TYPE_CHECKING:
    from ..model.transformer import Transformer
    from ..text import Tokenizer

EXAMPLES = [
    'qkv fill "the [MASK] sat on the mat" --model runs/mlm-mybook',
    'qkv fill "Paris is the [MASK] of France." --model ./my-bert-folder',
    'qkv fill "河[MASK]有一座小镇" --model runs/mlm-mybook-zh --top 10',
    "qkv fill --text gaps.txt --model runs/mlm-mybook > filled.txt",
]
# A [MASK] hides one token, which for these tokenizers is not a word.
PIECES = {
    "characters": _(
        "This model's tokens are single characters ({n} tokens in all): a [MASK] hides one character, not a word."
    ),
    "bytes": _("This model's tokens are single bytes: a [MASK] hides one byte, a third of a Chinese character."),
    "bpe": _(
        "This model's tokens are pieces of text ({n} in all), often shorter than a word: a [MASK] hides one piece."
    ),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    text_arguments(parser, say("a text with [MASK] in it"), by_line=True)
    model_arguments(parser)
    parser.add_argument("--top", type=int, metavar="K", help=say("how many guesses (5)"))


def run(options: argparse.Namespace) -> int:
    """Print the likeliest words for each [MASK]; for lines, each line with the likeliest filled in."""
    rows = read_lines([] if options.text is None else [options.text], options.file, EXAMPLES[0])
    if rows is not None and options.top is not None:
        raise Problem("{option} goes with one text, not with lines: leave it out", option="--top")
    if options.top is not None and options.top < 1:
        raise Problem("{value} guesses were asked for: give 1 or more", value=options.top)
    model, tokenizer = open_model(options.model, "fill", yes=options.yes)
    if rows is not None:
        return _lines(model, tokenizer, rows)
    from ..generation.decoding import fill

    for number, guesses in enumerate(fill(model, tokenizer, options.text, k=5 if options.top is None else options.top)):
        print(f"[MASK] {number + 1}")
        word_width = max(text_grid.width(word) for word, _ in guesses)
        for word, probability in guesses:
            print(f"  {text_grid.left(word, word_width)}  {probability:6.1%}  {'█' * round(30 * probability)}")
    if tokenizer.kind in PIECES:
        echo(PIECES[tokenizer.kind], sys.stderr, n=tokenizer.vocab)
    return 0


def _lines(model: "Transformer", tokenizer: "Tokenizer", rows: list[str]) -> int:
    from ..generation.decoding import guess, masked_ids

    def fill_row(row: str, ids: list[int]) -> str:
        for guesses in guess(model, tokenizer, ids, 1):
            row = tokenizer.put_in(row, guesses[0][0])
        return row

    return answer_lines(
        say("filling in"),
        rows,
        lambda row: (row, masked_ids(model, tokenizer, row)),
        lambda ready: len(ready[1]),
        lambda batch: [fill_row(*pair) for pair in batch],
    )
