"""qkv models: list, download, inspect and verify models by name."""

import argparse

from ..i18n import Listed, Problem, _, all_of, echo, language, say
from ..terminal.progress import bar

EXAMPLES = [
    "qkv models",
    "qkv models get smollm2",
    "qkv models get minimind",
    "qkv models show smollm2",
    "qkv models show ./my-hf-folder",
    "qkv models why ./my-hf-folder",
    "qkv models verify",
    "qkv models remove opus-zh-en",
]
# Usual names; the tables in formats/families need torch.
LAYOUTS = (
    "LLaMA Mistral Mixtral Qwen2 Qwen3 Qwen3-MoE Qwen3-Next Gemma Phi-3 DeepSeek GPT-2 GPT-NeoX OPT BERT RoBERTa T5 BART "
    "Marian Mamba-2 Bamba"
).split()


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "what",
        nargs="?",
        default="list",
        choices=["list", "get", "show", "why", "verify", "remove"],
        help=say("list (default), get, show, why (what stands in the way of loading), verify, remove"),
    )
    add("names", nargs="*", help=say("names, or hf:owner/name; show and why also take folders and files"))


def run(options: argparse.Namespace) -> int:
    """Run one of the six actions; return 1 if `why` found an obstacle."""
    if options.what == "list":
        _list()
    elif options.what == "verify":
        _verify(options.names)
    elif not options.names:
        raise Problem("qkv models {what} needs a name; see  qkv models", what=options.what)
    else:
        action = {"get": _get, "show": _show, "why": _why, "remove": _remove}[options.what]
        return int(False in [action(name) for name in options.names])
    return 0


def _get(name: str) -> None:
    from ..library import store

    store.find(name, "model")
    with bar(say("fetching {name}", name=name), in_bytes=True) as progress:
        path = store.get(name, progress)
    echo("{name} is here: {place}\nUse it with  --model {name}", name=name, place=path)


def _show(name: str) -> None:
    from .model_options import open_model

    model, tokenizer = open_model(name, "show")
    print(model.describe())
    echo("Tokenizer: {tokenizer!r}", tokenizer=tokenizer)


def _why(name: str) -> bool:
    """Print a model's settings and what prevents loading it; True if it loads."""
    from ..formats.locate import find_model

    find_model(name)  # refuses a wrong name before torch is loaded
    from ..formats.load_report import inspect_model
    from ..model.describe import headline

    report = inspect_model(name)
    echo("{place}: {what}", place=report.path, what=report.description)
    if report.config is not None:
        print("  " + headline(report.config))
        print("  " + say("understood: {settings}", settings=Listed(report.settings(), " · ")))
    if report.loads:
        echo("Nothing stands in the way: it loads.  qkv models show {name}", name=name)
        return True
    echo("What stands in the way:")
    for obstacle in report.obstacles:
        print(f"  - {obstacle.say(language())}")
    return False


def _verify(names: list[str]) -> None:
    """Check the hash of every file of the named models, by default of all downloaded ones."""
    from ..library import store

    installed = names or [item.name for item in store.listing("model") if store.files(item.name)]
    if not installed:
        raise Problem("there is no downloaded model to verify: `qkv models` lists what is available")
    first_problem = None
    for name in installed:
        files = store.files(name)
        if not files:
            raise store.absent(name)
        with bar(say("reading {name}", name=name)) as progress:
            changed = store.changed(name, again=True, progress=progress)
        if changed:
            first_problem = first_problem or Problem(
                "{file} is no longer what was fetched, somebody or something changed it: it is not used; get it again "
                "with `qkv {verb} get {name}`",
                file=changed[0],
                name=name,
                verb="models",
            )
            continue
        size = sum(file.stat().st_size for file in files) / 1e6
        echo("{name}: {n} files, {size:.0f} MB, each is what was fetched (sha256)", name=name, n=len(files), size=size)
    if first_problem is not None:
        raise first_problem


def _remove(name: str) -> None:
    from ..library import store

    store.find(name, "model")
    echo(_("removed {name}") if store.remove(name) else _("{name} was not here"), name=name)


def _list() -> None:
    from ..library import store
    from ..terminal import text_grid

    rows, details = [], []
    for item in store.listing("model"):
        path = store.path(item.name)
        note = say(item.note) + (f" ({item.credit})" if item.credit else "")
        here = str(path) if path else f"qkv models get {item.name}"
        rows.append((item.name, item.layout, f"{item.size / 1e6:.0f} MB", item.licence))
        details.append(f"    {note}\n    {here}")
    for line, detail in zip(text_grid.aligned(rows, words=range(4)), details, strict=True):
        print(f"{line}\n{detail}")
    print(
        "\n"
        + say(
            "--model also takes a run's folder, a Hugging Face folder (safetensors or ONNX), a .gguf file, or "
            "hf:owner/name after\nqkv models get hf:owner/name. Layouts: {names}.",
            names=all_of(LAYOUTS),
        )
    )
