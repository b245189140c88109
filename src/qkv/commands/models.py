"""qkv models: the models that can be had by name, where they lie, and what is inside them."""

import argparse

from ..words import Problem, both, language, say
from .progress import bar

EXAMPLES = [
    "qkv models",
    "qkv models get smollm2",
    "qkv models show smollm2",
    "qkv models show ./my-hf-folder",
    "qkv models verify",
    "qkv models remove opus-zh-en",
]


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument(
        "what",
        nargs="?",
        default="list",
        choices=["list", "get", "show", "verify", "remove"],
        help=both("list (default), get, show, verify, remove", "list（默认）、get、show、verify、remove"),
    )
    parser.add_argument(
        "names",
        nargs="*",
        help=both(
            "names, or hf:owner/name; show also takes folders and files",
            "名字，或 hf:作者/名字；show 也可以给文件夹和文件",
        ),
    )


def run(options: argparse.Namespace) -> None:
    """One of the five."""
    if options.what == "list":
        _list()
        return
    if options.what == "verify":
        _verify(options.names)
        return
    if not options.names:
        raise Problem("problem.models.name", what=options.what)
    for name in options.names:
        {"get": _get, "show": _show, "remove": _remove}[options.what](name)


def _get(name: str) -> None:
    from .. import store

    with bar(both(f"fetching {name}", f"下载 {name}")) as progress:
        place = store.get(name, progress)
    print(say("models.got", name=name, place=place))


def _show(name: str) -> None:
    from .opening import open_model

    model, tokenizer = open_model(name, "show")
    print(model.describe())
    print(both(f"Tokenizer: {tokenizer!r}", f"分词器：{tokenizer!r}"))


def _verify(names: list[str]) -> None:
    """Compute the hash of every file, of all models that are here or of those that are named."""
    from .. import store

    here = names or [item.name for item in store.listing("model") if store.files(item.name)]
    if not here:
        raise Problem("store.verified.none")
    wrong = None
    for name in here:
        files = store.files(name)
        if not files:
            raise store.absent(name)
        with bar(both(f"reading {name}", f"读取 {name}")) as progress:
            changed = store.changed(name, again=True, progress=progress)
        if changed:
            wrong = wrong or Problem("store.changed", file=changed[0], name=name, verb="models")
            continue
        size = sum(file.stat().st_size for file in files) / 1e6
        print(say("store.verified", name=name, n=len(files), size=f"{size:.0f}"))
    if wrong is not None:
        raise wrong


def _remove(name: str) -> None:
    from .. import store

    print(say("data.removed" if store.remove(name) else "data.absent", name=name))


def _list() -> None:
    from .. import grid, store

    rows = []
    for item in store.listing("model"):
        place = store.path(item.name)
        note = item.note_zh if language() == "zh" else item.note
        here = str(place) if place else f"qkv models get {item.name}"
        rows.append((item.name, item.layout, f"{item.size / 1e6:.0f} MB", item.licence, note, here))
    widths = [max(grid.width(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join(grid.left(cell, w) for cell, w in zip(row[:4], widths, strict=True)))
        print(f"    {row[4]}\n    {row[5]}")
    print("\n" + say("models.also"))
