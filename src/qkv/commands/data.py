"""qkv data: the data sets that can be had, and turning text into tokens."""

import argparse
from pathlib import Path

from ..words import Problem, both, language, say
from .progress import bar

EXAMPLES = [
    "qkv data",
    "qkv data get shakespeare",
    "qkv data remove enwik8",
    "qkv data prepare mybook.txt --out tokens/ --tokenizer bpe",
]


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add(
        "what",
        nargs="?",
        default="list",
        choices=["list", "get", "remove", "prepare"],
        help=both("list (default), get, remove, prepare", "list（默认）、get、remove、prepare"),
    )
    add("names", nargs="*", help=both("data sets, or the text to prepare", "数据集名，或要处理的文本"))
    add("--out", type=Path, metavar="FOLDER", help=both("where prepared tokens go", "词元存到哪里"))
    add(
        "--tokenizer",
        default="auto",
        choices=["auto", "characters", "bytes", "bpe"],
        help=both("how text is cut", "怎样切分文本"),
    )
    add("--vocab", type=int, metavar="N", help=both("size of a bpe vocabulary", "bpe 词表大小"))


def run(options: argparse.Namespace) -> None:
    """One of the four."""
    if options.what == "list":
        _list()
    elif not options.names:
        raise Problem("problem.data.name", what=options.what)
    elif options.what == "prepare":
        _prepare(options)
    else:
        from .. import store

        for name in options.names:
            if options.what == "get":
                with bar(both(f"fetching {name}", f"下载 {name}")) as progress:
                    print(store.get(name, progress))
            else:
                key = "data.removed" if store.remove(name) else "data.absent"
                print(say(key, name=name))


def _list() -> None:
    from .. import grid, store

    rows = []
    for item in store.listing("data"):
        place = store.path(item.name)
        note = item.note_zh if language() == "zh" else item.note
        rows.append(
            (item.name, f"{item.size / 1e6:.1f} MB", item.licence, note, str(place or both("not here yet", "尚未下载")))
        )
    widths = [max(grid.width(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join([*(grid.left(cell, w) for cell, w in zip(row[:4], widths, strict=True)), row[4]]))
    print("\n" + say("data.get"))


def _prepare(options: argparse.Namespace) -> None:
    from .. import text

    if options.out is None:
        raise Problem("problem.data.out")
    corpus = text.Corpus.of(*options.names)
    made = text.train_tokenizer(options.tokenizer, corpus, vocab=options.vocab)
    print(say("why.asked" if options.tokenizer != "auto" else f"why.{made.kind}", kind=made.kind, vocab=made.vocab))
    made.save(options.out)
    with bar(both("cutting the text into tokens", "把文本切成词元")) as progress:
        tokens = text.prepare(corpus, made, options.out, progress=progress)
    print(
        say(
            "data.prepared",
            train=f"{len(tokens.train):,}",
            validation=f"{len(tokens.validation):,}",
            folder=options.out,
        )
    )
