"""qkv importance: which heads a model needs, by how much its loss grows without each."""

import argparse
from pathlib import Path
from typing import Any

from .. import grid
from ..words import Problem, both, say
from .opening import model_arguments
from .progress import bar
from .texts import PIPE, text_arguments, whole

EXAMPLES = [
    'qkv importance --model smollm2 --text "The cat sat on the mat because it was tired"',
    "qkv importance --model runs/lm-mybook --file mybook.txt --keep importance.jsonl",
]
PIECE, MOST = 256, 2048  # a file is taken in pieces of so many tokens, or of the context; and so many in all


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    text_arguments(parser, both("a text", "一段文本"))
    add("--text", dest="also", metavar="TEXT", help=both("the same", "同上"))
    model_arguments(parser)
    add("--top", type=int, default=12, metavar="K", help=both("how many to show (12)", "显示多少个（12）"))
    add(
        "--keep",
        type=Path,
        metavar="FILE",
        help=both("remember what is done here, and go on from it", "把进度存到这个文件，下次接着算"),
    )


def run(options: argparse.Namespace) -> None:
    """Switch each head off in turn and list those that were missed most."""
    if options.top < 1:
        raise Problem("problem.number", option="--top", value=options.top, wanted="1, 2, 3, …")
    if options.model is None:
        raise Problem("problem.model.none")
    given = options.also if options.text is None else options.text
    text, long = whole(given, options.file, EXAMPLES[0]), options.file is not None or given == PIPE
    from ..tracing.edit import importance
    from .see import open_any

    model, tokenizer = open_any(options.model, yes=options.yes)
    texts: list[Any] = [text]
    if long and hasattr(tokenizer, "frame") and model.config.kind == "decoder":
        ids = tokenizer.encode(text)
        piece = min(PIECE, model.config.context)
        texts = [ids[i : i + piece] for i in range(0, len(ids), piece) if len(ids[i : i + piece]) > 1]
        texts = texts[: max(MOST // piece, 1)]
        print(say("importance.part", used=sum(map(len, texts)), tokens=len(ids)))
    with bar(both("switching heads off", "逐个关掉头")) as progress:
        found = importance(model, texts, tokenizer, progress=progress, resume=options.keep)
    print(say("importance.title", n=len(found), model=options.model))
    shown = found[: options.top]
    wide = max(grid.width(f"{row.part} {row.layer}.{row.head}") for row in shown)
    largest = max((abs(row.change) for row in shown), default=0.0) or 1.0
    for row in shown:
        name = grid.left(f"{row.part} {row.layer}.{row.head}", wide)
        print(f"  {name}  {row.change:+.4f}  {'█' * round(30 * max(row.change, 0) / largest)}")
    helped = sum(row.change > 0 for row in found)
    print(say("importance.rest", helped=helped, others=len(found) - helped))
