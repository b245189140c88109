"""qkv train: train a GPT, a BERT, a translator or a classifier."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..i18n import Problem, _, echo, say
from ..terminal.progress import bar, clock
from ..terminal.screen import live
from .model_options import fetch

if TYPE_CHECKING:
    from ..train.loop import Metrics
    from ..train.run import Run
    from ..train.settings import Changes

EXAMPLES = [
    "qkv train lm --text mybook.txt",
    "qkv train lm --text shakespeare --yes",
    'qkv train mlm --text mybook.txt --watch "the cat sat on the mat"',
    "qkv train translate",
    "qkv train translate --pairs en-zh.tsv --preset small",
    "qkv train lm --from smollm2 --text mybook.txt",
    "qkv train lm --from smollm2 --text mybook.txt --lora 16",
    "qkv train lm --from smollm2 --chat chats.jsonl --lora 16",
    "qkv train translate --from opus-zh-en --pairs zh-en.tsv",
    "qkv train classify --from minilm --pairs reviews.tsv",
    "qkv train lm --text mybook.txt --steps 300 --set n_layer=6 --set position=alibi",
    "qkv train --resume runs/lm-mybook",
    "qkv train --resume runs/lm-mybook --steps 2000",
    "torchrun --nproc-per-node 8 -m qkv train lm --text mybook.txt --parallel fsdp",
]
MEMORISED = 1.1  # a final validation loss above this multiple of the best one counts as memorization


# name, help, options of add_argument
ARGUMENTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "task",
        _(
            "lm: the next word (GPT); mlm: hidden words (BERT); translate: another sentence (encoder-decoder); classify: a "
            "label for a text (from an encoder)"
        ),
        dict(nargs="?", choices=["lm", "mlm", "translate", "classify"]),
    ),
    ("--text", _("a file, folder, glob, or data set (see qkv data)"), dict(metavar="WHAT")),
    (
        "--chat",
        _('with --from: chats, {{"messages": [{{"role": …, "content": …}}, …]}} a line; only answers are learned'),
        dict(metavar="JSONL"),
    ),
    (
        "--pairs",
        _("source TAB target (or text TAB label), one pair a line; a translator without it learns dates"),
        dict(metavar="TSV"),
    ),
    (
        "--from",
        _("go on from real weights: a name (see qkv models), a folder, a .gguf file or a run; its tokenizer is kept"),
        dict(dest="base", metavar="MODEL"),
    ),
    (
        "--out",
        _("the run's folder (runs/TASK-NAME; with --from runs/TASK-NAME-MODEL, with --lora …-lora)"),
        dict(metavar="RUN", type=Path),
    ),
    ("--preset", _("tiny, small or gpt2; tiny-mamba2, tiny-bamba or tiny-qwen3-next (tiny)"), dict(metavar="NAME")),
    (
        "--lora",
        _("with --from: its weights stay as they are and low-rank matrices beside them learn (16 is usual)"),
        dict(type=int, metavar="RANK"),
    ),
    ("--steps", _("how many steps"), dict(type=int, metavar="N")),
    ("--seed", _("draws weights and batches (0)"), dict(type=int, metavar="S")),
    ("--batch", _("rows per step"), dict(type=int, metavar="B")),
    ("--context", _("tokens per row"), dict(type=int, metavar="N")),
    ("--lr", _("learning rate"), dict(type=float, metavar="X")),
    ("--eval-every", _("steps between evaluations"), dict(type=int, metavar="N")),
    ("--checkpoint-every", _("steps between checkpoints (about every 30 s)"), dict(type=int, metavar="N")),
    ("--tokenizer", _("how text is cut (auto)"), dict(choices=["auto", "characters", "bytes", "bpe"])),
    ("--watch", _("keep this sentence's attention at every evaluation"), dict(metavar="SENTENCE")),
    ("--set", _("any other setting, of the model or the run"), dict(action="append", default=[], metavar="KEY=VALUE")),
    ("--resume", _("go on with a run; --steps then gives it more"), dict(type=Path, metavar="RUN")),
    ("--parallel", _("with torchrun: how processes share (ddp)"), dict(choices=["ddp", "fsdp"])),
    ("--yes", _("fetch the data set, and the model to go on from, if they aren't here"), dict(action="store_true")),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    for name, meaning, options in ARGUMENTS:
        parser.add_argument(name, help=say(meaning), **options)


def run(options: argparse.Namespace) -> int:
    """Start or resume training with a live line; print a command that uses the model."""
    if options.task is None and options.resume is None:
        raise Problem("say what to train, as in  qkv train lm --text mybook.txt, or a run to resume, --resume RUN")
    if options.resume is None and options.task in ("lm", "mlm") and options.text is None and options.chat is None:
        raise Problem(
            "training {task} needs a text: --text FILE, a folder, a glob, or a data set (see  qkv data)",
            task=options.task,
        )
    if options.yes:
        _fetch(options.text or options.pairs)
        if options.base is not None:
            fetch(options.base)

    _check(options)
    training_run = _open(options)
    from ..train.loop import Stopped

    live_line = LiveLine(training_run, quiet=not training_run.world.first)
    live_line.introduce()
    try:
        state = training_run.train(live_line.report)
    except Stopped as stopped:
        live_line.end(
            say(
                "stopped at step {step}, all saved; go on with  qkv train --resume {run}",
                step=stopped.step,
                run=training_run.folder,
            )
        )
        return 130
    best = state["best_loss"]
    assert best is not None  # the last step is evaluated
    if state["step"] < training_run.settings.steps:
        live_line.end(
            say(
                "stopped early at step {step}: {n} evaluations without improvement (--set patience=none trains to the end)",
                step=state["step"],
                n=state["waited"],
            )
        )
    live_line.end(
        say(
            _("done: best validation loss {loss} at step {step}; everything is in {run}. Try it:")
            if (live_line.validation or 0.0) <= MEMORISED * best
            else _(
                "done: best validation loss {loss} at step {step}, and that checkpoint is the one that is opened. Afterwards "
                "the validation loss rose: the model memorised a text that is too short for it. Everything is in {run}. "
                "Try it:"
            ),
            run=training_run.folder,
            loss=f"{best:.3f}",
            step=state["best_step"],
        )
    )
    if training_run.world.first:
        print(_next_command(training_run))
    return 0


def _open(options: argparse.Namespace) -> Run:
    """Return the new or resumed run."""
    with bar(say("loading PyTorch"), show=os.environ.get("RANK", "0") == "0"):
        from ..train.parallelize import world_from_environment
        from ..train.resume_options import ResumeOptions
        from ..train.run import resume, start

        world = world_from_environment(options.parallel, options.resume)
    shared: dict[str, Any] = {name: getattr(options, name) for name in ("out", "pairs", "chat", "base", "watch")}
    shared |= {"source": options.text, "changes": _changes(options)}
    if options.resume is not None:
        extended = ResumeOptions(task=options.task, preset=options.preset, tokenizer=options.tokenizer, **shared)
        with bar(say("opening {name}", name=options.resume), show=world.first):
            return resume(options.resume, world, extended)
    tokenizer = options.tokenizer or "auto"
    with bar(say("preparing the text"), show=world.first) as progress:
        return start(options.task, name=options.preset, tokenizer=tokenizer, world=world, progress=progress, **shared)


def _check(options: argparse.Namespace) -> None:
    """Raise for invalid names, files and settings before torch is loaded."""
    from .. import text
    from ..disk import run_folder
    from ..formats.locate import find_model
    from ..library import store
    from ..train.settings import resolve_preset

    changes = _changes(options)
    if options.resume is not None:
        run_folder.read_record(options.resume)
        return
    if options.base is not None:
        find_model(options.base)
    elif options.task != "classify":
        resolve_preset(options.preset or "tiny", options.task, changes)
    if options.text is not None and options.task in ("lm", "mlm"):
        text.Corpus.of(store.locate(options.text))
    if options.pairs is not None and not Path(pairs := store.locate(options.pairs)).exists():
        text.read_pairs(pairs)


def _changes(options: argparse.Namespace) -> Changes:
    from ..model.config import read_value

    changes: Changes = {}
    for assignment in options.set:
        name, sign, value = assignment.partition("=")
        if not sign:
            raise Problem("{text} is not a setting: write --set name=value", text=assignment)
        changes[name.strip()] = read_value(value.strip())
    for name in ("steps", "seed", "batch", "context", "lr", "lora", "eval_every", "checkpoint_every"):
        if (value := getattr(options, name)) is not None:
            if name in changes and changes[name] != value:
                raise Problem(
                    "{name} is set twice: --set {name}={set} and {option} {value}; leave one out",
                    name=name,
                    set=changes[name],
                    value=value,
                    option=_option(name),
                )
            changes[name] = value
    return changes


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _fetch(name: str | None) -> None:
    from ..library import store

    if name is not None and any(item.name == name for item in store.listing("data")) and store.path(name) is None:
        with bar(say("fetching {name}", name=name), in_bytes=True) as progress:
            store.get(name, progress)


def _next_command(run: Run) -> str:
    """Return a command that uses the trained model on a text from its data."""
    verb = {"lm": "generate", "mlm": "fill"}.get(run.task.name, run.task.name)
    text = {"lm": _excerpt, "mlm": _excerpt, "chat": lambda task: None}.get(run.task.name, _example)(run.task)
    words = ["qkv", verb, *([] if text is None else [text]), "--model", str(run.folder)]
    return shlex.join(words)


def _example(task: Any) -> str:
    """Return the first example text of a task, without its label."""
    first = task.examples[0]
    return first if isinstance(first, str) else first[0]


def _excerpt(task: Any) -> str:
    """Return a few words of the validation text; for a BERT, one of them is masked."""
    text = task.tokenizer.decode([int(token) for token in task.tokens.all[-200:]])
    line = max(text.replace("\ufffd", "").splitlines(), key=len, default="").strip()
    words = line.split()
    if len(words) > 4:
        return " ".join([*words[1:3], "[MASK]" if task.name == "mlm" else words[3]])
    return line[:3] + "[MASK]" + line[4:7] if task.name == "mlm" else line[:6]


def _is_first_time(key: str) -> bool:
    """True the first time on this machine, recorded by an empty file in the cache folder."""
    from ..library import store

    mark = store.home() / "shown" / key
    if mark.exists():
        return False
    with suppress(OSError):  # read-only cache: shown again
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return True


MAX_SILENCE = 30.0  # seconds without a line in a log


class LiveLine:
    """The live line: step, loss, validation loss, speed and remaining time."""

    def __init__(self, run: Run, quiet: bool) -> None:
        self.run, self.quiet = run, quiet
        self.live = sys.stdout.isatty()
        state = run.state or {"step": 0}
        self.started = (state["step"], state.get("seconds", 0.0))  # of this session, not of the resumed one
        self.validation: float | None = None
        self.last_print = 0.0 if self.live else time.monotonic()

    def introduce(self) -> None:
        """Print the size of the model, automatic choices with their reasons, and the steps to train."""
        if self.quiet:
            return
        model, settings = self.run.model, self.run.settings
        echo(
            "{n:,} parameters: {config.n_layer} layers, width {config.width}, vocabulary {config.vocab}",
            n=model.count(),
            config=model.config,
        )
        from ..train.reasons import REASONS

        for key, values in self.run.why:
            if key == "why.eager" and not _is_first_time(key):
                continue
            print("  " + say(REASONS[key], **values))
        first = 0 if self.run.state is None else self.run.state["step"]
        key = (
            _("training {last} steps into {run}")
            if not first
            else _("going on at step {first} of {last} in {run}")
            if first < settings.steps
            else _(
                "all {last} steps of {run} are done; for more, say how many in all:  qkv train --resume {run} --steps "
                "{more}"
            )
        )
        echo(key, first=first, last=settings.steps, run=self.run.folder, more=2 * settings.steps)

    def report(self, line: Metrics) -> None:
        """Callback after every step: prints five times a second on a terminal; in a log at evaluations and every MAX_SILENCE."""
        self.validation = line.get("val_loss", self.validation)
        if "loss" not in line:
            if not self.quiet:
                print(say("before the first step: validation loss {loss:.3f}", loss=line["val_loss"]), flush=True)
            return
        now = time.monotonic()
        due = now - self.last_print >= (0.2 if self.live else MAX_SILENCE)
        if self.quiet or not (due or (not self.live and "val_loss" in line)):
            return
        self.last_print = now
        settings = self.run.settings
        # By steps, not tokens: sentences differ in length, and evaluations take time.
        steps, seconds = line["step"] - self.started[0], line["seconds"] - self.started[1]
        remaining = (settings.steps - line["step"]) * seconds / steps
        validation = "" if self.validation is None else f" · val {self.validation:.3f}"
        sentence = _("{step}/{steps} · loss {loss:.3f}{validation} · {tokens_per_second:,.0f} tokens/s · {left} left")
        text = say(sentence, steps=settings.steps, validation=validation, left=clock(remaining), **line)
        if self.live:
            live(text, sys.stdout)
        else:
            print(text, flush=True)

    def end(self, text: str) -> None:
        """Print the final message on a line of its own."""
        if not self.quiet:
            print(("\n" if self.live else "") + text)
