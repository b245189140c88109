"""qkv generate: let a trained GPT go on with a text."""

import argparse
import warnings
from typing import Any

from ..words import Notice, Problem, both
from .opening import Pace, check_choices, drawing, model_arguments, open_model
from .texts import answer_lines, lines, text_arguments

EXAMPLES = [
    'qkv generate "ROMEO:" --model runs/lm-shakespeare',
    'qkv generate "The capital of France is" --model smollm2 --temperature 0',
    'qkv generate "从前" --model runs/lm-mybook --temperature 0.8 --top-k 40 --seed 3',
    'qkv generate "The" --model runs/lm-mybook --most 50 --stop "."',
    "qkv generate --file beginnings.txt --model smollm2 --temperature 0 --most 20 > texts.txt",
]


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    text_arguments(parser, both("how it begins", "开头"), lines=True)
    model_arguments(parser)
    add("--most", type=int, default=200, metavar="N", help=both("new tokens at most (200)", "最多新增多少词元（200）"))
    add(
        "--temperature",
        type=float,
        metavar="T",
        help=both(
            "0 takes the likeliest each time (as the model's files say, else 0.8)",
            "0 表示每次取最可能的（按模型文件的设定，没有则为 0.8）",
        ),
    )
    add("--top-k", type=int, metavar="K", help=both("only the K likeliest", "只在最可能的 K 个里选"))
    add(
        "--top-p",
        type=float,
        metavar="P",
        help=both("only the likeliest that make up this share", "只在累计概率达到 P 的里选"),
    )
    add(
        "--repetition-penalty",
        type=float,
        metavar="X",
        help=both("above 1 discourages repeating (1)", "大于 1 时减少重复（1）"),
    )
    add("--stop", action="append", default=[], metavar="TEXT", help=both("stop before this text", "遇到这段文字就停"))
    add("--seed", type=int, default=0, metavar="S", help=both("draws the choices (0)", "随机数种子（0）"))
    add(
        "--int8",
        action="store_true",
        help=both("weights in 8 bits: faster, a little less exact", "权重用 8 位：更快，略欠精确"),
    )
    add("--quiet", action="store_true", help=both("only the text, without the speed", "只输出文本，不显示速度"))


def run(options: argparse.Namespace) -> None:
    """Print the text as it grows, then how fast it came; line by line, each beginning with what follows it."""
    rows = lines([] if options.text is None else [options.text], options.file, EXAMPLES[0])
    check_choices(options)
    if options.quiet:
        warnings.simplefilter("ignore", Notice)
    model, tokenizer = open_model(options.model, "generate", yes=options.yes, int8=options.int8)
    from ..model.generate import complete, stream

    how = dict(most=options.most, stop=options.stop) | drawing(options, tokenizer, temperature=0.8)
    if rows is not None:
        answer_lines(
            both("generating", "续写"),
            rows,
            lambda row: (row, _prompt(model, tokenizer, row, options.most)),
            lambda ready: len(ready[1]) + options.most,
            lambda some: [
                row + said
                for (row, _), said in zip(
                    some,
                    complete(model, tokenizer, [ids for _, ids in some], seed=[options.seed] * len(some), **how),
                    strict=True,
                )
            ],
        )
        return
    ids = _prompt(model, tokenizer, options.text, options.most)
    print(options.text, end="", flush=True)
    pace = Pace(len(ids))
    with warnings.catch_warnings(record=True) as noticed:  # they would stand in the middle of the text
        for piece in stream(model, tokenizer, ids, seed=options.seed, on_token=pace, **how):
            print(piece, end="", flush=True)
    print()
    for each in noticed:
        warnings.warn(each.message, stacklevel=1)
    if not options.quiet:
        pace.tell()


def _prompt(model: Any, tokenizer: Any, text: str, most: int) -> list[int]:
    """The tokens of a beginning, if the model has room for them and what is to follow."""
    from ..model.reading import check_context

    ids = tokenizer.frame(tokenizer.encode(text))
    if model.config.window is None and len(ids) >= model.config.context:
        raise Problem("generation.full", longest=len(ids), context=model.config.context)
    check_context(model, [ids], most)
    return ids
