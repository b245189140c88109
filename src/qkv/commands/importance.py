"""qkv importance: rank heads by how much the loss grows without each."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..i18n import echo, say
from ..terminal import text_grid
from ..terminal.progress import bar
from ..tracing.views.token_labels import PARTS
from .model_options import missing_model, model_arguments, open_any
from .option_checks import check_range
from .text_input import PIPE, read_whole, text_arguments

if TYPE_CHECKING:
    from ..tracing.study.ablation import Importance

EXAMPLES = [
    'qkv importance "The cat sat on the mat because it was tired" --model smollm2',
    "qkv importance --model runs/lm-mybook --text mybook.txt --keep importance.jsonl",
]
PIECE_TOKENS, MAX_TOKENS = 256, 2048  # a long text is cut into pieces of at most the context; MAX_TOKENS in all


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text_arguments(parser, say("a text"))
    model_arguments(parser)
    add("--top", type=int, default=12, metavar="K", help=say("how many to show (12)"))
    add("--keep", type=Path, metavar="FILE", help=say("remember what is done here, and go on from it"))


def run(options: argparse.Namespace) -> None:
    """Switch each head off in turn and list those with the largest effect on the loss."""
    check_range("--top", options.top, 1)
    if options.model is None:
        raise missing_model("importance")
    text = read_whole(options.text, options.file, EXAMPLES[0])
    model, tokenizer = open_any(options.model, yes=options.yes)
    from ..tracing.record.model_protocol import model_of
    from ..tracing.record.tokenizer_protocol import reader_of
    from ..tracing.study.ablation import importance

    texts: list[str | list[int]] = [text]
    adapter = model_of(model)
    if (options.file is not None or options.text == PIPE) and adapter.kind == "decoder":
        ids = reader_of(tokenizer).ids(text, framed=False)
        piece = min(PIECE_TOKENS, adapter.context or PIECE_TOKENS)
        texts = [ids[i : i + piece] for i in range(0, len(ids), piece) if len(ids[i : i + piece]) > 1]
        texts = texts[: max(MAX_TOKENS // piece, 1)]
        echo("{used} of the file's {tokens} tokens are used", used=sum(map(len, texts)), tokens=len(ids))
    with bar(say("switching heads off")) as progress:
        importances = importance(model, texts, tokenizer, progress=progress, resume=options.keep)
    echo(
        "{n} heads of {model}, by how much the loss on this text changes without each (layer.head, both from 0):",
        n=len(importances),
        model=options.model,
    )
    rows = importances[: options.top]
    name_width = max(text_grid.width(_name(row)) for row in rows)
    largest = max((abs(row.change) for row in rows), default=0.0) or 1.0
    for row in rows:
        name = text_grid.left(_name(row), name_width)
        print(f"  {name}  {row.change:+.4f}  {'█' * round(30 * max(row.change, 0) / largest)}")
    helped = sum(row.change > 0 for row in importances)
    echo(
        "{helped} heads lower the loss, {others} don't, on this text.", helped=helped, others=len(importances) - helped
    )


def _name(row: "Importance") -> str:
    return f"{say(PARTS[row.part])} {row.layer}.{row.head}"
