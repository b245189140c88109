"""A run: begun in a folder (run_folder.py) from which everything about a training can be known and gone on with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .. import __version__, text
from ..disk import run_folder
from ..disk.bounded_reading import WRONG
from ..disk.run_folder import check
from ..formats.adapters import adapt
from ..formats.model_files import base_of, config_of, empty
from ..i18n import Problem, _, all_of, say
from ..library import store
from ..model.config import Config
from ..model.transformer import Transformer
from ..process.memory import need, told
from .fine_tuning import classifier, gentle, meant, open_base, reason
from .lock import RunLock, lock_first
from .loop import train
from .optim import make_optimizers
from .parallelize import World
from .resume_options import Asked, Reason, changed, extend, refuse, settings_of, shown
from .settings import TUNED, Settings, chosen
from .tasks import Answers, Classification, Task
from .threads import threads, threads_for
from .training_data import KINDS, Progress, Sources, gather, open_task, sizes
from .watch import Watch

USELESS = {
    "--text": _("--text is {value}, but {task} learns from sentence pairs: give --pairs TSV, or nothing for dates"),
    "--text of labels": _(
        "--text is {value}, but {task} learns from texts with labels: give --pairs TSV, text TAB label"
    ),
    "--pairs": _("--pairs is {value}, but {task} learns from a text: give --text instead"),
    "--tokenizer": _("--tokenizer is {value}, but dates are always cut into characters: leave it out, or give --pairs"),
    "--from": _(
        "--from is {value}, but dates are learned from nothing in minutes: give --pairs, sentences that the model is to learn"
    ),
    "--chat": _(
        "--chat is {value}, but chats are laid out by a model's own template: say which with  qkv train lm --from MODEL"
    ),
    "--chat and --text": _("--chat is {value}, and there is a --text too: leave one of them out"),
    "lora": _("--lora {value} learns beside weights that stay as they are: say which model's with --from"),
    "vocab": _("vocab is {value}, but a model has as many tokens as its tokenizer: leave it out"),
}
KEPT = {  # beside --from
    "--preset": _("--preset is {value}, but --from says which model it is: leave one of them out"),
    "--tokenizer": _("--tokenizer is {value}, but a model that is gone on from keeps its own: leave it out"),
}
# What was chosen and why, as a run's config.json keeps it: the name of a reason, and what fills it.
REASONS = {
    "why.dates": _("data: no --pairs were given, so it learns to write dates of many forms as ISO dates"),
    "why.asked": _("tokenizer: {kind}, as asked, {vocab} tokens"),
    "why.characters": _("tokenizer: characters, {vocab} tokens: the text is too short to learn whole words from"),
    "why.many": _(
        "tokenizer: characters, {vocab} tokens: the text is too short to learn whole words from, and as bytes most "
        "characters would take three tokens each"
    ),
    "why.bytes": _("tokenizer: bytes: there are so many different characters that most are rare"),
    "why.bpe": _("tokenizer: bpe with {vocab} pieces: the text is long enough to learn words from"),
    "why.cpu": _("device: CPU, threads: {threads}; no GPU was found"),
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
    "why.base": _("from: {base}, {parameters} weights, all of which learn; its tokenizer is kept, {vocab} tokens"),
    "why.lora": _(
        "from: {base}, whose {parameters} weights stay as they are; matrices of rank {rank} beside its projections learn (LoRA); its tokenizer is kept, {vocab} tokens"
    ),
    "why.gentle": _(
        "real weights and few data, so gently: learning rate {lr}, {passes} passes over {rows} rows are {steps} steps of {batch} (at least {least}); it ends early if {patience} evaluations bring nothing"
    ),
    "why.own": _(
        "learning rate {lr}, {steps} steps of {batch} rows; it ends early if {patience} evaluations bring nothing"
    ),
    "why.labels": _("{n} labels: {labels}; the head that tells them is new"),
    "why.chats": _(
        "{n} rows of chat, of which only the assistant's answers are learned; {cut} are longer than {row} tokens and are cut there"
    ),
    "why.cut": _("{n} of {all} texts are longer than {row} tokens and are cut there; --context N takes more"),
    "why.unknown": _(
        "{share} of what these texts are cut into is unknown to its tokenizer, and texts that differ there alone look the same to the model: take one that was taught their language"
    ),
    "why.row": _("rows of {row} tokens: the model could read {context}, but few data and short steps go further"),
    "why.now": _("{name}: {now} from here on, {was} before"),
    "why.damaged": _("passed over a damaged checkpoint: {problem}"),
}


UNKNOWN = 0.1  # the share of tokens from which on it is said that a model doesn't know them


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
    tuned: bool = False  # does it go on from weights that were learned before?
    threads: int | None = None  # to compute with; None is PyTorch's own number
    lock: RunLock | None = None  # held by the first process until training ends

    def train(self, report: Callable[[dict[str, Any]], None] = lambda line: None) -> dict[str, Any]:
        """Train to the end; see loop.py."""
        with lock_first(self.folder, self.world) or nullcontext(), threads(self.threads):
            return train(
                self.folder,
                self.model,
                self.task,
                self.settings,
                self.optimizers,
                state=self.state,
                world=self.world,
                watch=self.watch,
                measured=self.tuned,
                report=report,
            )


def start(
    task: str,
    *,
    out: Path | None = None,
    source: str | None = None,
    pairs: str | None = None,
    chat: str | None = None,
    base: str | None = None,
    name: str | None = None,
    changes: dict[str, Any] | None = None,
    tokenizer: str | text.Tokenizer = "auto",
    watch: str | None = None,
    world: World | None = None,
    progress: Progress | None = None,
) -> Run:
    """Begin a run in a new folder: read the data, make the tokenizer, build the model.

    `tokenizer` is the kind to make, or one that is there already. With `base` (a name, a folder, a .gguf file, a run) the model is that one, and its tokenizer is kept.
    """
    if task not in TUNED:
        raise Problem("there is no task {task!r}: choose from {tasks}", task=task, tasks=all_of(TUNED))
    if task == "classify" and (base is None or pairs is None):
        raise Problem(
            "classify teaches an encoder labels: say which one and from what, as in  qkv train classify --pairs reviews.tsv "
            "--from minilm"
        )
    asked, sources = dict(changes or {}), Sources(source, pairs, chat)
    _refuse_useless(task, sources, base, name, tokenizer, asked)
    world = world or World()
    folder = out or Path("runs") / _called(task, sources, base, asked)
    if base is None:
        config, settings, yielded = chosen(name or "tiny", task, asked)
        world.check(settings)
        _able(settings)

    def found() -> None:
        if (folder / run_folder.CONFIG).exists():
            raise Problem(
                "{folder} holds a run already: go on with `qkv train --resume {folder}`, or choose another --out",
                folder=folder,
            )
        why: list[Reason]
        if base is None:
            why = [
                ("why.yields", {"name": word, "has": shown(getattr(config, word)), "was": was})
                for word, was in yielded.items()
            ]
            data = gather(task, folder, sources, tokenizer, progress, why)
            plan, made = settings, config.replace(vocab=text.load(folder).vocab)
        else:
            wanted, why = meant(asked), []
            given = open_base(base, task)
            made = given.model.config.replace(**{k: wanted.pop(k) for k in ("dropout",) if k in wanted})
            Settings(**wanted)  # refuses what can't be before the text is read
            told = {"base": base, "parameters": f"{given.model.count():,}", "vocab": made.vocab}
            why.append(
                ("why.base", told) if wanted.get("lora") is None else ("why.lora", {**told, "rank": wanted["lora"]})
            )
            data = gather(task, folder, sources, given.tokenizer, progress, why)
            if task == "classify":
                made = classifier(made, data["labels"])
                why.append(("why.labels", {"n": len(made.labels), "labels": all_of(made.labels[:10]).say("en")}))
            rows, held, row = sizes(data["kind"], folder, made, wanted.get("row"))
            if data["kind"] == "text" and row is not None and row < made.context:
                why.append(("why.row", {"row": row, "context": made.context}))
            plan = gentle(task, rows, held, {"row": row, **wanted}, world.size)
            why.append(reason(plan, rows, wanted))
            world.check(plan)
            _able(plan)
        few = threads_for(empty(made).count(), plan.batch // world.size * (plan.row or made.context))
        _tell(plan, few, why)
        record = {
            "qkv": __version__,
            "task": task,
            "preset": (name or "tiny") if base is None else None,
            "base": None if base is None else given.record(),
            "threads": few,
            "model": made.to_dict(),
            "train": plan.to_dict(),
            "data": data,
            "watch": watch,
            "why": why,
        }
        # What can't be trained is refused before there is a run.
        spoken = text.load(folder)
        opened = open_task(record, folder, spoken, made, plan)
        if isinstance(opened, Answers):
            why.append(("why.chats", {"n": len(opened.train), "cut": opened.train.cut, "row": plan.row}))
        if isinstance(opened, Classification) and opened.train.cut:
            why.append(("why.cut", {"n": opened.train.cut, "all": len(opened.train), "row": plan.row}))
        if isinstance(opened, Classification) and (share := opened.train.unknown) > UNKNOWN:
            why.append(("why.unknown", {"share": f"{share:.0%}"}))
        _watch(record, folder, spoken, made)
        _affordable(made, plan, world)
        run_folder.write_record(folder, record)

    with _new_folder(folder, world) as lock:
        world.once(found)
        return _open(folder, world, lock)


def _called(task: str, sources: Sources, base: str | None, changes: dict[str, Any]) -> str:
    """TASK-NAME, for what it learns from; -MODEL follows with a base, and -lora with an adapter."""
    what = "dates" if task == "translate" and sources.pairs is None else sources.called
    tuned = [] if base is None else [Path(base).stem]
    return "-".join([task, what, *tuned, *(["lora"] if changes.get("lora") else [])])


def _refuse_useless(
    task: str,
    sources: Sources,
    base: str | None,
    preset: str | None,
    tokenizer: str | text.Tokenizer,
    changes: dict[str, Any],
) -> None:
    """Refuse what was said and would be used for nothing."""
    cut = None if tokenizer == "auto" else tokenizer
    for sentence, given, right in (
        (USELESS["--text" if task == "translate" else "--text of labels"], sources.text, task in ("lm", "mlm")),
        (USELESS["--pairs"], sources.pairs, task not in ("lm", "mlm")),
        (USELESS["--from"], base, task != "translate" or sources.pairs is not None),
        (USELESS["--tokenizer"], cut, task != "translate" or sources.pairs is not None),
        (USELESS["vocab"], changes.get("vocab"), False),
        (USELESS["--chat"], sources.chat, task == "lm" and base is not None),
        (USELESS["--chat and --text"], sources.chat, sources.text is None),
        (USELESS["lora"], changes.get("lora"), base is not None),
        (KEPT["--preset"], preset, base is None),
        (KEPT["--tokenizer"], cut, base is None),
    ):
        if given is not None and not right:
            raise Problem(sentence, value=given, task=task)


@contextmanager
def _new_folder(folder: Path, world: World) -> Iterator[RunLock | None]:
    """Make and lock the folder of a new run. If the set-up fails, remove whatever it created.

    Ctrl-C does leave the tokens that were cut so far: the same command goes on with them.
    """
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    world.once(partial(folder.mkdir, parents=True, exist_ok=True))
    lock = lock_first(folder, world)
    empty_before = lock is not None and [inside.name for inside in folder.iterdir()] == [run_folder.LOCK]
    try:
        yield lock
    except Exception:
        if lock is not None:
            if empty_before:
                for inside in folder.iterdir():
                    if inside.name != run_folder.LOCK:
                        shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
            lock.release()
            for place in new:
                if place.is_dir() and not any(place.iterdir()):
                    place.rmdir()
        raise


def resume(folder: Path, world: World | None = None, asked: Asked | None = None) -> Run:
    """Go on with a run from its newest whole checkpoint, from the beginning where there is none; see resume_options.py."""
    world = world or World()
    run_folder.read_record(folder)  # a folder that is not a run gets no lock file
    lock = lock_first(folder, world)
    try:
        if asked is not None:
            source, pairs = (None if path is None else store.locate(path) for path in (asked.source, asked.pairs))
            world.once(partial(_agree, folder, replace(asked, source=source, pairs=pairs)))
        return _open(folder, world, lock)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _agree(folder: Path, asked: Asked) -> None:
    """Refuse what a run can't be asked for, and write down what it can."""
    record = run_folder.read_whole_record(folder, RECORD)
    if record["base"] is not None:
        asked = replace(asked, changes=meant(asked.changes))
    refuse(asked, folder, record)
    if changes := changed(asked, record):
        place, _ = _newest(folder)
        done = 0 if place is None else run_folder.read_state(place)["step"]
        run_folder.write_record(folder, extend(folder, record, changes, done))


def _sayable(reasons: Any) -> bool:
    """Are these reasons of ours, with all that fills them?"""
    try:
        return all(bool(say(REASONS[key], **values)) for key, values in reasons)
    except WRONG:
        return False


# What must be right in the config.json of a run that is to go on.
RECORD: dict[str, Callable[[Any], bool]] = {
    "task": lambda value: isinstance(value, str) and value in TUNED,
    "model": lambda value: isinstance(value, dict),
    "train": lambda value: isinstance(value, dict),
    "base": lambda value: (
        value is None or (isinstance(value, dict) and all(isinstance(value.get(k), str) for k in ("place", "sha256")))
    ),
    "data": lambda value: isinstance(value, dict) and value.get("kind") in KINDS,
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
        count * size * (2 + moments if settings.lora is None else 1),
        _(
            "a model of {weights} weights takes at least {size} to train and {free} of memory is free: make "
            "width, n_layer or hidden smaller"
        ),
        world.device,
        weights=f"{count:,}",
    )
    rows = -(-settings.batch // settings.accumulate // world.size)
    tokens = (
        2 if config.kind == "encoder-decoder" else settings.row or config.context
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
    there = folder / run_folder.CHECKPOINTS
    place, every = run_folder.newest(there), run_folder.checkpoints(there)
    damaged = every if place is None else every[every.index(place) + 1 :]
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


def _open(folder: Path, world: World, lock: RunLock | None) -> Run:
    record = run_folder.read_whole_record(folder, RECORD)
    place, damaged = world.once(partial(_newest, folder))
    settings = settings_of(record)
    config = config_of(folder, record, place if settings.lora is None else None)
    if settings.lora is not None and record["base"] is None:
        raise Problem("lora is {rank}, but there is no model whose weights could stay as they are", rank=settings.lora)
    _affordable(config, settings, world)
    _able(settings)
    spoken = text.load(folder)
    task = open_task(record, folder, spoken, config, settings)
    torch.manual_seed(settings.seed)
    # With a checkpoint of all weights the base isn't needed any more.
    whole = record["base"] is None or (place is not None and settings.lora is None)
    model = (Transformer(config) if whole else base_of(folder, record["base"], config)).to(world.device).train()
    if settings.dtype == "float64":
        model = model.double()
    if settings.lora is not None:
        adapt(model, settings.lora, settings.lora_alpha, settings.lora_parts, record["base"]["place"])
    model = world.prepare(model)
    optimizers = make_optimizers(model, settings)
    why: list[Reason] = [*record["why"], *(("why.damaged", {"problem": check(p)}) for p in damaged)]
    state = None if place is None else world.load(place, model, optimizers)
    if world.size > 1:
        why.append(("why.processes", {"n": world.size, "kind": world.kind}))
    if state is not None and (change := world.differs(state)):
        why.append(("why.world", change))
    watch = _watch(record, folder, spoken, config)
    return Run(
        folder,
        task,
        model,
        settings,
        optimizers,
        watch,
        state,
        world,
        why,
        record["base"] is not None,
        record["threads"],
        lock,
    )


def _watch(record: dict[str, Any], folder: Path, spoken: text.Tokenizer, config: Config) -> Watch | None:
    if record["watch"] is None:
        return None
    return Watch(folder, record["watch"], spoken, config.context if config.position == "learned" else None)


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
