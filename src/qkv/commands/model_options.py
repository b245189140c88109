"""Options and loading shared by the verbs that use a model."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..i18n import Message, Problem, _, all_of, echo, one_of, say
from ..terminal.progress import bar

if TYPE_CHECKING:
    from torch import nn

    from ..model.transformer import Transformer
    from ..text import Tokenizer

M = TypeVar("M")
T = TypeVar("T")

KINDS = {
    "generate": "decoder",
    "chat": "decoder",
    "fill": "encoder",
    "classify": "encoder",
    "translate": "encoder-decoder",
    "caption": "encoder-decoder",
}

# Suitable models for a verb: names of `qkv models`, and the command that trains one.
SUITABLE = {
    "fill": ((), "qkv train mlm"),
    "classify": ((), "qkv train classify"),
    "translate": (("opus-zh-en",), "qkv train translate"),
    "caption": ((), "python tools/make_captioner.py"),
}
LANGUAGE_MODELS = (("smollm2", "minimind"), "qkv train lm")


def missing_model(verb: str) -> Problem:
    """Return the Problem of a missing --model, which names a suitable one and how to get it."""
    names, command = SUITABLE.get(verb, LANGUAGE_MODELS)
    if not names:
        return Problem("say which model: --model RUN, the folder of a run (make one with  {command})", command=command)
    return Problem(
        "say which model, as in  --model {name} (get it with  qkv models get {name}); a run's folder will do too (make one "
        "with  {command})",
        name=names[0],
        command=command,
    )


def wrong_kind(model: str | None, kind: str, verb: str, needed: str) -> Problem:
    """Return the Problem of a model of the wrong kind, which names suitable ones."""
    names, command = SUITABLE.get(verb, LANGUAGE_MODELS)
    return Problem(
        "{model} is a model of kind {kind}: {verb} needs one of kind {needed}, such as {models}",
        model=model,
        kind=kind,
        verb=f"qkv {verb}",
        needed=needed,
        models=one_of([*names, Message("a run of  {command}", command=command)]),
    )


def model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --model and --yes."""
    add = parser.add_argument
    add("--model", metavar="MODEL", help=say("a run, a Hugging Face folder, a .gguf file, or a name (see qkv models)"))
    add("--yes", action="store_true", help=say("fetch the model first if it is named and not here"))


def open_any(name: str, *, yes: bool = False, eager: bool = False, words: bool = False) -> "tuple[nn.Module, Any]":
    """Return (model, tokenizer) of a run, a folder, a file or a name; with `yes` it is downloaded if missing.

    transformers opens layouts that qkv doesn't know; with `words`, with a language-model head and a qkv tokenizer.
    """

    def opener(path: str) -> "tuple[nn.Module, Any]":
        from ..formats.open_model import open_any  # imports torch, which may take longer than loading

        return open_any(path, eager=eager, lm_head=words)

    return _open(name, yes, opener)


def open_model(
    name: str | None, verb: str, *, yes: bool = False, int8: bool = False
) -> "tuple[Transformer, Tokenizer]":
    """Return (model, tokenizer) of a model that qkv implements; raise if its kind doesn't fit the verb."""

    def opener(path: str) -> "tuple[Transformer, Tokenizer | None]":
        from ..formats.model_files import load

        return load(path)

    if name is None:
        raise missing_model(verb)
    model, tokenizer = _open(name, yes, opener)
    assert tokenizer is not None  # else `_open` raises
    kind = model.config.kind
    if verb in KINDS and kind != KINDS[verb]:
        raise wrong_kind(name, kind, verb, KINDS[verb])
    if int8:
        from ..formats.quantise import quantise

        quantise(model)
    return model, tokenizer


def _open(name: str, yes: bool, opener: Callable[[str], tuple[M, T]]) -> tuple[M, T]:
    if yes:
        fetch(name)
    from ..formats.locate import find_model

    find_model(name)  # refuses a wrong name before torch is loaded
    with bar(say("opening {name}", name=name)):
        model, tokenizer = opener(name)
        if tokenizer is None:
            from .. import text

            text.load(find_model(name))  # raises with the missing file
    return model, tokenizer


def _chosen_sampling(options: argparse.Namespace) -> dict[str, Any]:
    names = ("temperature", "top_k", "top_p", "repetition_penalty")
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def sampling_options(options: argparse.Namespace, tokenizer: "Tokenizer", **defaults: float) -> dict[str, Any]:
    """Return the sampling options: from the command line, else the model's files (printed to stderr), else defaults."""
    habits = tokenizer.habits
    from_files = habits.sampling()
    defaults = {} if from_files else defaults
    from_files |= {"repetition_penalty": habits.repetition_penalty} if habits.repetition_penalty != 1.0 else {}
    from_options = _chosen_sampling(options)
    applied = {name: value for name, value in from_files.items() if name not in from_options and value is not None}
    if applied and not options.quiet:
        text = all_of(f"{name.replace('_', '-')} {value:g}" for name, value in applied.items())
        echo("as the model's files say: {names} (an option on the command line goes before it)", sys.stderr, names=text)
    return defaults | applied | from_options


def fetch(name: str) -> None:
    """Download a model by name if it is missing; do nothing for paths."""
    from pathlib import Path

    from ..library import store
    from ..library.catalogue import Item

    if Path(name).exists() or store.path(name) is not None:
        return
    item = store.find(name)
    if isinstance(item, Item):  # the download is smaller than the size in `qkv models`
        packed, size = (f"{number / 1e6:.0f} MB" for number in (item.package.size, item.size))
        sentence = _("fetching {name} ({packed} packed, {size} on the disk, once) …")
        echo(sentence, sys.stderr, name=name, packed=packed, size=size)
    else:
        echo("fetching {name} …", sys.stderr, name=name)
    with bar(name, in_bytes=True) as progress:
        store.get(name, progress)


def check_sampling(options: argparse.Namespace) -> None:
    """Raise for invalid sampling options and --most, before anything is loaded or printed."""
    from ..generation.sampling import Sampling, check_seeds

    Sampling(**_chosen_sampling(options))
    check_seeds([getattr(options, "seed", 0)])
    if options.most is not None and options.most < 1:
        raise Problem("most is {value}: give how many new tokens may come, 1 or more", value=options.most)


class SpeedMeter:
    """Callback that counts new tokens; `report` prints the speed of the prompt and of generation to stderr."""

    def __init__(self, prompt: int) -> None:
        self.prompt, self.count, self.started, self.first = prompt, 0, time.perf_counter(), 0.0

    def __call__(self, token: int) -> None:
        self.first = self.first or time.perf_counter() - self.started
        self.count += 1

    def report(self) -> None:
        """Print the speeds on a line."""
        generating = time.perf_counter() - self.started - self.first
        speed = (self.count - 1) / max(generating, 1e-9) if self.count > 1 else 0.0
        reading_speed = self.prompt / max(self.first, 1e-9)
        sentence = _(
            "{prompt} prompt tokens in {seconds:.4g} s ({reading:.0f} tokens/s) · {new} new ones, {speed:.1f} tokens/s"
        )
        echo(
            sentence,
            sys.stderr,
            prompt=self.prompt,
            seconds=self.first,
            reading=reading_speed,
            new=self.count,
            speed=speed,
        )
