"""A run: begun in a folder (runfiles.py) from which everything about a training can be known and gone on with."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .. import __version__, runfiles, store, text
from ..files import WRONG
from ..memory import need, told
from ..model.config import Config
from ..model.transformer import Transformer
from ..model.weights import config_of, empty
from ..runfiles import check
from ..words import Problem, _, all_of, say
from .extension import Asked, Reason, changed, extend, refuse, settings_of, shown
from .loop import train
from .optim import make_optimizers
from .parallelize import World
from .settings import TASKS, Settings, chosen
from .tasks import HiddenWord, NextWord, Task, Translation
from .threads import threads, threads_for
from .watch import Watch

Progress = Callable[[int, int], None]


USELESS = {
    "--text": _("--text is {value}, but {task} learns from sentence pairs: give --pairs TSV, or nothing for dates"),
    "--pairs": _("--pairs is {value}, but {task} learns from a text: give --text instead"),
    "--tokenizer": _("--tokenizer is {value}, but dates are always cut into characters: leave it out, or give --pairs"),
    "vocab": _("vocab is {value}, but a model has as many tokens as its tokenizer: leave it out"),
}
# What was chosen and why, as a run's config.json keeps it: the name of a reason, and what fills it.
REASONS = {
    "why.dates": _("data: no --pairs were given, so it learns to write dates of many forms as ISO dates"),
    "why.asked": _("tokenizer: {kind}, as asked, {vocab} tokens"),
    "why.characters": _("tokenizer: characters, {vocab} of them: the text is too short to learn whole words from"),
    "why.bytes": _("tokenizer: bytes: there are so many different characters that most are rare"),
    "why.bpe": _("tokenizer: bpe with {vocab} pieces: the text is long enough to learn words from"),
    "why.cpu": _("device: CPU with {threads} threads; no GPU was found"),
    "why.thread": _(
        "device: CPU with one of {threads} threads: the model is so small that threads would wait for each other more than they work (OMP_NUM_THREADS sets another number); no GPU was found"
    ),
    "why.gpu": _("device: {name}"),
    "why.float32": _("dtype: float32"),
    "why.float64": _("dtype: float64, as asked"),
    "why.bfloat16": _("dtype: bfloat16 for matrix products, as asked"),
    "why.eager": _("not compiled: that takes half a minute before the first step; --set compile=true asks for it"),
    "why.compiled": _("compiled, as asked: the first step takes half a minute"),
    "why.processes": _("{n} processes share each batch ({kind})"),
    "why.world": _(
        "saved by {was}, goes on with {now}: the same batches, but sums round in another order and dropout falls elsewhere, so from here on it agrees to rounding, not bit for bit"
    ),
    "why.yields": _("{name}: {has}; the preset's {was} gives way to what was asked for"),
    "why.steps": _("steps: {now} instead of {was}; from step {done} on the learning rate follows the plan for {now}"),
    "why.now": _("{name}: {now} from here on, {was} before"),
    "why.damaged": _("passed over a damaged checkpoint: {problem}"),
}


@dataclass
class Run:
    """Everything a training needs, ready to go."""

    folder: Path
    task: Task
    model: Transformer
    settings: Settings
    optimizers: list[torch.optim.Optimizer]
    watch: Watch | None
    state: dict[str, Any] | None
    world: World
    why: list[Reason]  # what was chosen, and for what reason
    threads: int | None = None  # to compute with; None is PyTorch's own number

    def train(self, report: Callable[[dict[str, Any]], None] = lambda line: None) -> dict[str, Any]:
        """Train to the end; see loop.py."""
        with threads(self.threads):
            return train(
                self.folder,
                self.model,
                self.task,
                self.settings,
                self.optimizers,
                state=self.state,
                world=self.world,
                watch=self.watch,
                report=report,
            )


def start(
    task: str,
    *,
    out: Path | None = None,
    source: str | None = None,
    pairs: str | None = None,
    name: str = "tiny",
    changes: dict[str, Any] | None = None,
    tokenizer: str = "auto",
    watch: str | None = None,
    world: World | None = None,
    progress: Progress | None = None,
) -> Run:
    """Begin a run in a new folder: read the data, make the tokenizer, build the model."""
    if task not in TASKS:
        raise Problem("there is no task {task!r}: choose from {tasks}", task=task, tasks=all_of(TASKS))
    for option, given, right in (
        ("--text", source, task != "translate"),
        ("--pairs", pairs, task == "translate"),
        ("--tokenizer", None if tokenizer == "auto" else tokenizer, task != "translate" or pairs is not None),
        ("vocab", (changes or {}).get("vocab"), False),
    ):
        if given is not None and not right:
            raise Problem(USELESS[option], value=given, task=task)
    config, settings, yielded = chosen(name, task, changes or {})
    world = world or World()
    world.check(settings)
    _able(settings)
    what = "dates" if task == "translate" and pairs is None else Path(str(pairs or source or "text")).stem
    folder = out or Path("runs") / f"{task}-{what}"

    def found() -> None:
        if (folder / runfiles.CONFIG).exists():
            raise Problem(
                "{folder} holds a run already: go on with `qkv train --resume {folder}`, or choose another --out",
                folder=folder,
            )
        why: list[Reason] = [
            ("why.yields", {"name": word, "has": shown(getattr(config, word)), "was": was})
            for word, was in yielded.items()
        ]
        folder.mkdir(parents=True, exist_ok=True)
        data = _gather(task, folder, source, pairs, tokenizer, progress, why)
        spoken = text.load(folder)
        made = config.replace(vocab=spoken.vocab)
        few = threads_for(empty(made).count(), settings.batch // world.size * made.context)
        _tell(settings, few, why)
        record = {
            "qkv": __version__,
            "task": task,
            "preset": name,
            "threads": few,
            "model": made.to_dict(),
            "train": settings.to_dict(),
            "data": data,
            "watch": watch,
            "why": why,
        }
        # What can't be trained is refused before there is a run.
        _task(record, folder, spoken, made, settings)
        _watch(record, folder, spoken, made)
        _affordable(made, settings, world)
        runfiles.write_record(folder, record)

    with _gone_if_it_fails(folder, world):
        world.once(found)
        return _open(folder, world)


@contextmanager
def _gone_if_it_fails(folder: Path, world: World) -> Iterator[None]:
    """What can't be begun leaves nothing: no empty folder, none that only looks like a run.

    Ctrl-C does leave the tokens that were cut so far: the same command goes on with them.
    """
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    mine = world.first and (folder in new or (folder.is_dir() and not any(folder.iterdir())))
    try:
        yield
    except Exception:
        if mine:
            for inside in folder.iterdir() if folder.is_dir() else ():
                shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
            for place in new:
                if place.is_dir() and not any(place.iterdir()):
                    place.rmdir()
        raise


def resume(folder: Path, world: World | None = None, asked: Asked | None = None) -> Run:
    """Go on with a run from its newest whole checkpoint, from the beginning where there is none; see extension.py."""
    world = world or World()
    if asked is not None:
        source, pairs = (None if path is None else store.locate(path) for path in (asked.source, asked.pairs))
        world.once(partial(_agree, folder, replace(asked, source=source, pairs=pairs)))
    return _open(folder, world)


def _agree(folder: Path, asked: Asked) -> None:
    """Refuse what a run can't be asked for, and write down what it can."""
    record = runfiles.read_whole_record(folder, RECORD)
    refuse(asked, folder, record)
    if changes := changed(asked, record):
        place, _ = _newest(folder)
        done = 0 if place is None else runfiles.read_state(place)["step"]
        runfiles.write_record(folder, extend(folder, record, changes, done))


def _sayable(reasons: Any) -> bool:
    """Are these reasons of ours, with all that fills them?"""
    try:
        return all(bool(say(REASONS[key], **values)) for key, values in reasons)
    except WRONG:
        return False


# What must be right in the config.json of a run that is to go on.
RECORD: dict[str, Callable[[Any], bool]] = {
    "task": lambda value: isinstance(value, str) and value in TASKS,
    "model": lambda value: isinstance(value, dict),
    "train": lambda value: isinstance(value, dict),
    "data": lambda value: isinstance(value, dict) and value.get("kind") in ("dates", "pairs", "text"),
    "watch": lambda value: value is None or isinstance(value, str),
    "why": lambda value: isinstance(value, list) and _sayable(value),
    "preset": lambda value: value is None or isinstance(value, str),
    "threads": lambda value: value is None or (type(value) is int and 0 < value < 1000),
}


def _affordable(config: Config, settings: Settings, world: World) -> None:
    """Refuse what memory can't hold before any of it is made: at least weights, gradients and momenta, and a batch."""
    size = 8 if settings.dtype == "float64" else 4
    try:
        count = empty(config).count()
    except RuntimeError as error:  # sizes beyond what 64 bits count
        raise told(error) or error from None
    moments = 1 if settings.optimizer == "muon" else 2
    need(
        count * size * (2 + moments),
        _(
            "a model of {weights} weights takes at least {size} to train and {free} of memory is free: make "
            "width, n_layer or hidden smaller"
        ),
        world.device,
        weights=f"{count:,}",
    )
    rows = -(-settings.batch // settings.accumulate // world.size)
    tokens = (
        2 if config.kind == "encoder-decoder" else config.context
    )  # sentences may be short, rows of a text are full
    size = 2 if settings.dtype == "bfloat16" else size
    token = 16 + size * (2 * config.vocab + sum(config.layers) * (4 * config.width + 2 * config.hidden_width))
    need(
        rows * tokens * token,
        _(
            "a batch of {rows} rows of {tokens} tokens takes at least {size} and {free} of memory is free: give a "
            "smaller --batch or --context, or --set accumulate=N"
        ),
        world.device,
        rows=f"{rows:,}",
        tokens=f"{tokens:,}",
    )


def _newest(folder: Path) -> tuple[Path | None, list[Path]]:
    """The newest checkpoint that is whole, and those after it, which are damaged."""
    there = folder / runfiles.CHECKPOINTS
    place = runfiles.newest(there)
    damaged = [p for p in runfiles.checkpoints(there) if place is None or p > place]
    if place is None and damaged:  # training would begin anew and write over what can perhaps be saved
        raise Problem(
            "{folder} has {n} checkpoints and none is whole, so there is nothing to go on from: {problem}. "
            "Nothing was changed. To train it anew from step 0, move {folder}/checkpoints away and say  qkv train "
            "--resume {folder}",
            folder=folder,
            n=len(damaged),
            problem=check(damaged[-1]),
        )
    return place, damaged


def _open(folder: Path, world: World) -> Run:
    record = runfiles.read_whole_record(folder, RECORD)
    place, damaged = world.once(partial(_newest, folder))
    config, settings = config_of(folder, record, place), settings_of(record)
    _affordable(config, settings, world)
    _able(settings)
    spoken = text.load(folder)
    task = _task(record, folder, spoken, config, settings)
    torch.manual_seed(settings.seed)
    model = Transformer(config).to(world.device)
    if settings.dtype == "float64":
        model = model.double()
    model = world.prepare(model)
    optimizers = make_optimizers(model, settings)
    why: list[Reason] = [*record["why"], *(("why.damaged", {"problem": check(p)}) for p in damaged)]
    state = None if place is None else world.load(place, model, optimizers)
    if world.size > 1:
        why.append(("why.processes", {"n": world.size, "kind": world.kind}))
    if state is not None and (change := world.differs(state)):
        why.append(("why.world", change))
    watch = _watch(record, folder, spoken, config)
    return Run(folder, task, model, settings, optimizers, watch, state, world, why, record["threads"])


def _gather(
    task: str,
    folder: Path,
    source: str | None,
    pairs: str | None,
    tokenizer: str,
    progress: Progress | None,
    why: list[Reason],
) -> dict[str, Any]:
    """Put what is to be learned from, and its tokenizer, into the run's folder."""
    if task == "translate":
        if pairs is None:
            text.date_tokenizer().save(folder)
            why.append(("why.dates", {}))
            return {"kind": "dates"}
        read = text.read_pairs(store.locate(pairs))
        if len(read) < 2:
            raise Problem(
                "{pairs} has {n} pair: give at least two, one to learn from and one to test with",
                pairs=pairs,
                n=len(read),
            )
        both = [sentence for pair in read for sentence in pair]
        made = text.train_tokenizer(tokenizer, both, special=("pad", "bos", "eos", "unk"))
        made.save(folder)
        why.append(_tokenizer_reason(made, tokenizer))
        content = text.as_tsv(read)
        (folder / runfiles.PAIRS).write_text(content, encoding="utf-8")
        return {"kind": "pairs", "source": str(pairs), "sha256": hashlib.sha256(content.encode()).hexdigest()}
    if source is None:
        raise Problem(
            "training {task} needs a text: --text FILE, folder, glob, or a data set (see `qkv data`)", task=task
        )
    corpus = text.Corpus.of(store.locate(source))
    special = ("pad", "eos", "mask") if task == "mlm" else ("eos",)
    made = text.train_tokenizer(tokenizer, corpus, special=special)
    made.save(folder)
    why.append(_tokenizer_reason(made, tokenizer))
    text.prepare(corpus, made, folder / runfiles.TOKENS, progress=progress)
    return {"kind": "text", "source": str(source), "sha256": corpus.sha256()}


def _task(record: dict[str, Any], folder: Path, spoken: text.Tokenizer, config: Config, settings: Settings) -> Task:
    kind = record["data"]["kind"]
    if record["task"] == "translate":
        learned: Any
        held: Any
        if kind == "dates":
            splits = ("train", "unseen")
            learned, held = (text.PairStream(partial(text.date_pair, split=split), spoken) for split in splits)
            examples = [text.date_pair(7, i, "unseen")[0] for i in range(6)]
        else:
            seen, unseen = text.split_pairs(text.read_pairs(folder / runfiles.PAIRS))
            unseen = unseen or seen[-1:]
            examples = [source for source, _ in unseen[:6]]
            learned, held = text.Pairs(seen, spoken), text.Pairs(unseen, spoken)
        longest = max(learned.longest, held.longest)
        if config.position == "learned" and longest > config.context:
            raise Problem(
                "a sentence of the pairs has {n} tokens but this model learns {context} positions: set --context {n}, "
                "or leave long sentences out, or --set position=rotary, which has no limit",
                n=longest,
                context=config.context,
            )
        return Translation(learned, held, spoken, examples)
    tokens = text.Dataset.open(folder / runfiles.TOKENS)
    if record["task"] == "mlm":
        return HiddenWord(tokens, spoken, config.context, settings.mask_share)
    return NextWord(tokens, spoken, config.context)


def _watch(record: dict[str, Any], folder: Path, spoken: text.Tokenizer, config: Config) -> Watch | None:
    if record["watch"] is None:
        return None
    return Watch(folder, record["watch"], spoken, config.context if config.position == "learned" else None)


def _tokenizer_reason(made: text.Tokenizer, asked: str) -> Reason:
    return ("why.asked" if asked != "auto" else f"why.{made.kind}"), {"kind": made.kind, "vocab": made.vocab}


def _tell(settings: Settings, few: int | None, why: list[Reason]) -> None:
    """Say which device and dtype a run uses, and whether it is compiled, with the reason."""
    if torch.cuda.is_available():
        why.append(("why.gpu", {"name": torch.cuda.get_device_name()}))
    elif few is not None:
        why.append(("why.thread", {"threads": torch.get_num_threads()}))
    else:
        why.append(("why.cpu", {"threads": torch.get_num_threads()}))
    why.append((f"why.{settings.dtype}", {}))
    why.append(("why.compiled" if settings.compile else "why.eager", {}))


def compiler() -> str | None:
    """The C++ compiler that torch.compile would call, if there is one."""
    asked = os.environ.get("CXX")
    names = [asked] if asked else ["cl"] if sys.platform == "win32" else ["g++", "clang++", "c++"]
    return next((found for name in names if (found := shutil.which(name))), None)


def _able(settings: Settings) -> None:
    """Refuse what this machine can't do, before there is a run."""
    if torch.cuda.is_available():
        return
    if settings.compile and compiler() is None:
        raise Problem(
            "compile is true, and there is no C++ compiler here: install g++ or clang++ (CXX names another), or "
            "leave compile=false, which trains the same"
        )
    # Some CPUs say they can do bfloat16 and then kill the process: try it in another process first.
    trial = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); print(float((a @ a).sum()))"
    if settings.dtype == "bfloat16" and subprocess.run([sys.executable, "-c", trial], capture_output=True).returncode:
        raise Problem(
            "bfloat16 does not work on this machine (a trial of it crashed): leave dtype=float32, or set the "
            "environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 before starting"
        )
