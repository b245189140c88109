"""qkv generate: let a trained GPT go on with a text."""

import argparse

from ..words import Problem, both
from .opening import Pace, model_arguments, need_text, open_model

EXAMPLES = [
    'qkv generate "ROMEO:" --model runs/lm-shakespeare',
    'qkv generate "The capital of France is" --model smollm2 --temperature 0',
    'qkv generate "从前" --model runs/lm-mybook --temperature 0.8 --top-k 40 --seed 3',
    'qkv generate "The" --model runs/lm-mybook --most 50 --stop "."',
]


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add("text", nargs="?", help=both("how it begins", "开头"))
    model_arguments(parser)
    add("--most", type=int, default=200, metavar="N", help=both("new tokens at most (200)", "最多新增多少词元（200）"))
    add(
        "--temperature",
        type=float,
        default=0.8,
        metavar="T",
        help=both("0 takes the likeliest each time (0.8)", "0 表示每次取最可能的（0.8）"),
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
        default=1.0,
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
    """Print the text as it grows, then how fast it came."""
    text = need_text(options.text, EXAMPLES[0])
    model, tokenizer = open_model(options.model, "generate", yes=options.yes, int8=options.int8)
    from ..model.generate import stream

    ids = tokenizer.frame(tokenizer.encode(text))
    if options.most < 1:
        raise Problem("generation.most", value=options.most)
    if model.config.window is None and len(ids) >= model.config.context:
        raise Problem("generation.full", longest=len(ids), context=model.config.context)
    print(text, end="", flush=True)
    pace = Pace(len(ids))
    pieces = stream(
        model,
        tokenizer,
        text,
        most=options.most,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        repetition_penalty=options.repetition_penalty,
        seed=options.seed,
        stop=options.stop,
        on_token=pace,
    )
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    if not options.quiet:
        pace.tell()
