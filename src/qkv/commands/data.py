"""qkv data: download data sets and tokenize text."""

import argparse
from pathlib import Path

from ..disk.atomic_files import write_file
from ..i18n import Problem, _, echo, language, say
from ..terminal.progress import bar

SAMPLES = Path(__file__).parent.parent / "demo" / "samples"
EXAMPLES = [
    "qkv data",
    "qkv data sample .",
    "qkv data get shakespeare",
    "qkv data remove enwik8",
    "qkv data prepare mybook.txt --out tokens/ --tokenizer bpe",
]


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    actions = ["list", "get", "remove", "prepare", "sample"]
    add("what", nargs="?", default="list", choices=actions, help=say("list (default), get, remove, prepare, sample"))
    add("names", nargs="*", help=say("data sets, the text to prepare, or the folder for the samples"))
    add("--out", type=Path, metavar="FOLDER", help=say("where prepared tokens go"))
    add("--tokenizer", default="auto", choices=["auto", "characters", "bytes", "bpe"], help=say("how text is cut"))
    add("--vocab", type=int, metavar="N", help=say("size of a bpe vocabulary"))


def run(options: argparse.Namespace) -> None:
    """Run one of the five actions."""
    if options.what == "list":
        _list()
    elif options.what == "sample":
        _sample(options.names)
    elif not options.names:
        raise Problem("qkv data {what} needs a name; see  qkv data", what=options.what)
    elif options.what == "prepare":
        _prepare(options)
    else:
        from ..library import store

        for name in options.names:
            store.find(name, "data")
        for name in options.names:
            if options.what == "get":
                with bar(say("fetching {name}", name=name), in_bytes=True) as progress:
                    print(store.get(name, progress))
            else:
                echo(_("removed {name}") if store.remove(name) else _("{name} was not here"), name=name)


def _sample(folders: list[str]) -> None:
    """Write the sample files that the examples of the guide and of --help use; files that exist are kept."""
    if len(folders) != 1:
        raise Problem("give one folder for the samples, as in  {example}", example="qkv data sample .")
    folder = Path(folders[0])
    folder.mkdir(parents=True, exist_ok=True)
    lines = []  # printed after all files are written: a reader such as `head` may close the pipe
    for source in sorted(SAMPLES.iterdir()):
        target = folder / source.name
        if target.exists():
            lines.append(say("kept {file}, which exists already", file=target))
        else:
            write_file(target, source.read_bytes())
            lines.append(say("wrote {path}", path=target))
    print("\n".join(lines))
    book = folder / ("mybook-zh.txt" if language() == "zh" else "mybook.txt")
    echo("Train on them, as in  {example}", example=f"qkv train lm --text {book}")


def _list() -> None:
    from ..library import store
    from ..terminal import text_grid

    rows = []
    for item in store.listing("data"):
        path = str(store.path(item.name) or say("not here yet"))
        rows.append((item.name, f"{item.size / 1e6:.1f} MB", item.licence, say(item.note), path))
    for line in text_grid.aligned(rows, words=range(5)):
        print(line.rstrip())
    print("\n" + say("Get one with  qkv data get NAME"))
    echo("Small files to try everything with:  qkv data sample FOLDER")


def _prepare(options: argparse.Namespace) -> None:
    from .. import text

    if options.out is None:
        raise Problem("say where the tokens go: --out FOLDER")
    corpus = text.Corpus.of(*options.names)
    from ..train.reasons import REASONS

    tokenizer = text.train_tokenizer(options.tokenizer, corpus, vocab=options.vocab)
    echo(REASONS[text.reason(options.tokenizer, tokenizer)], kind=tokenizer.kind, vocab=tokenizer.vocab)
    tokenizer.save(options.out)
    with bar(say("cutting the text into tokens")) as progress:
        tokens = text.prepare(corpus, tokenizer, options.out, progress=progress)
    counts = dict(train=len(tokens.train), validation=len(tokens.validation))
    echo("{train:,} tokens to learn from and {validation:,} to test with, in {folder}", folder=options.out, **counts)
