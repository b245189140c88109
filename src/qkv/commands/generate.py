"""qkv generate: continue a text with a trained GPT."""

import argparse
import sys
import warnings
from typing import TYPE_CHECKING

from ..i18n import Notice, Problem, echo, say
from .model_options import SpeedMeter, check_sampling, model_arguments, open_model, sampling_options
from .text_input import answer_lines, read_lines, text_arguments

if TYPE_CHECKING:
    from ..model.transformer import Transformer
    from ..text import Tokenizer

EXAMPLES = [
    'qkv generate "ROMEO:" --model runs/lm-shakespeare',
    'qkv generate "The capital of France is" --model smollm2 --temperature 0',
    'qkv generate "从前" --model runs/lm-mybook-zh --temperature 0.8 --top-k 40 --seed 3',
    'qkv generate "The" --model runs/lm-mybook --most 50 --stop "."',
    "qkv generate --text beginnings.txt --model smollm2 --temperature 0 --most 20 > texts.txt",
]
DEFAULT_MOST = 200  # new tokens, if the context has room


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text_arguments(parser, say("how it begins"), by_line=True)
    model_arguments(parser)
    add("--most", type=int, metavar="N", help=say("new tokens at most (200, or what the context has room for)"))
    add("--temperature", type=float, metavar="T", help=say("0 takes the likeliest (the model's setting, else 0.8)"))
    add("--top-k", type=int, metavar="K", help=say("only the K likeliest"))
    add("--top-p", type=float, metavar="P", help=say("only the likeliest that make up this share"))
    add("--repetition-penalty", type=float, metavar="X", help=say("above 1 discourages repeating (1)"))
    add("--stop", action="append", default=[], metavar="TEXT", help=say("stop before this text"))
    add("--seed", type=int, default=0, metavar="S", help=say("draws the choices (0)"))
    add("--int8", action="store_true", help=say("weights in 8 bits: faster, a little less exact"))
    add("--quiet", action="store_true", help=say("only the text, without the speed"))


def run(options: argparse.Namespace) -> int:
    """Print the text while it is generated, then the speed; for lines, each line with its continuation."""
    rows = read_lines([] if options.text is None else [options.text], options.file, EXAMPLES[0])
    check_sampling(options)
    if options.quiet:
        warnings.simplefilter("ignore", Notice)
    model, tokenizer = open_model(options.model, "generate", yes=options.yes, int8=options.int8)
    from ..generation.decoding import complete, stream

    sampling = dict(stop=options.stop) | sampling_options(options, tokenizer, temperature=0.8)
    most = DEFAULT_MOST if options.most is None else options.most
    if rows is not None:
        return answer_lines(
            say("generating"),
            rows,
            lambda row: (row, _prompt(model, tokenizer, row, most)),
            lambda prompt: len(prompt[1]) + most,
            lambda batch: [
                row + continuation
                for (row, _), continuation in zip(
                    batch,
                    complete(
                        model, tokenizer, [i for _, i in batch], seed=[options.seed] * len(batch), most=most, **sampling
                    ),
                    strict=True,
                )
            ],
        )
    ids = _prompt(model, tokenizer, options.text, 1 if options.most is None else most)
    if options.most is None and None in model.config.windows:  # with windows in all layers the length is unlimited
        most = min(DEFAULT_MOST, model.config.context - len(ids) + 1)
    print(options.text, end="", flush=True)
    meter = SpeedMeter(len(ids))
    with warnings.catch_warnings(record=True) as caught:  # shown after the text
        for piece in stream(model, tokenizer, ids, seed=options.seed, on_token=meter, most=most, **sampling):
            print(piece, end="", flush=True)
    print()
    for each in caught:
        warnings.warn(each.message, stacklevel=1)
    if not options.quiet:
        if options.most is None and meter.count == most < DEFAULT_MOST:
            echo(
                "(this fills the model's context of {context} tokens; --most N continues beyond its training length)",
                sys.stderr,
                context=model.config.context,
            )
        meter.report()
    return 0


def _prompt(model: "Transformer", tokenizer: "Tokenizer", text: str, most: int) -> list[int]:
    """Return the tokens of the prompt; raise if they and `most` new ones exceed the context."""
    from ..generation.prefill import check_context

    ids = tokenizer.frame(tokenizer.encode(text))
    if None in model.config.windows and len(ids) >= model.config.context:
        raise Problem(
            "the prompt has {longest} tokens and fills the context of {context}: shorten it",
            longest=len(ids),
            context=model.config.context,
        )
    check_context(model, [ids], most)
    return ids
