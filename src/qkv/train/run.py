"""A run: a training in a folder (run_folder.py) that describes it completely and from which it resumes.

To follow the set-up, read `start`, then `create_run` and `open_run`, which it calls.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from .. import __version__, text
from ..disk import run_folder
from ..disk.run_folder import State, check
from ..formats.model_files import empty_model, load_base, run_config
from ..i18n import Problem, _
from ..library import store
from ..model.transformer import Transformer
from .lock import RunLock, lock_first
from .loop import Report, train
from .machine import check_machine, check_memory, device_reasons, threads, threads_for
from .optim import make_optimizers
from .parallelize import World
from .reasons import Reason, setting_text
from .resume_options import ResumeOptions, check_resume, extend, new_settings
from .run_record import RunRecord, read_run_record
from .settings import Changes, ResolvedPreset, Settings, TaskName, parse_task, read_settings, resolve_preset
from .tasks import Task
from .training_data import Progress, Sources, open_task, prepare_data, task_reasons

if TYPE_CHECKING:
    from .watch import Watch


USELESS = {
    "--text": _("--text is {value}, but {task} learns from sentence pairs: give --pairs TSV, or nothing for dates"),
    "--text of labels": _(
        "--text is {value}, but {task} learns from texts with labels: give --pairs TSV, text TAB label"
    ),
    "--pairs": _("--pairs is {value}, but {task} learns from a text: give --text instead"),
    "--tokenizer": _("--tokenizer is {value}, but dates are always cut into characters: leave it out, or give --pairs"),
    "--from": _(
        "--from is {value}, but dates are learned from scratch in minutes: give --pairs with sentences for the model"
    ),
    "--chat": _(
        "--chat is {value}, but chats are laid out by a model's own template: say which with  qkv train lm --from MODEL"
    ),
    "--chat and --text": _("--chat is {value}, and there is a --text too: leave one of them out"),
    "lora": _("--lora {value} learns beside weights that stay as they are: say which model with --from"),
    "vocab": _("vocab is {value}, but a model has as many tokens as its tokenizer: leave it out"),
}
FIXED_BY_BASE = {  # with --from
    "--preset": _("--preset is {value}, but --from says which model it is: leave one of them out"),
    "--tokenizer": _("--tokenizer is {value}, but a model that is gone on from keeps its own: leave it out"),
}


@dataclass(frozen=True)
class StartOptions:
    """The arguments of `start`, None where absent. With a base, the model and its tokenizer are the base's."""

    task: TaskName
    sources: Sources
    base: str | None
    preset: str | None
    tokenizer: str | text.Tokenizer
    changes: Changes
    watch: str | None

    def check(self) -> None:
        """Refuse a task without its required options, and options that would be ignored."""
        task, sources = self.task, self.sources
        if task == "classify" and (self.base is None or sources.pairs is None):
            raise Problem(
                "classify needs an encoder and labelled texts, as in  qkv train classify --pairs reviews.tsv "
                "--from minilm"
            )
        tokenizer = None if self.tokenizer == "auto" else self.tokenizer
        lora = self.changes.get("lora")
        for sentence, value, is_useful in (
            (USELESS["--text" if task == "translate" else "--text of labels"], sources.text, task in ("lm", "mlm")),
            (USELESS["--pairs"], sources.pairs, task not in ("lm", "mlm")),
            (USELESS["--from"], self.base, task != "translate" or sources.pairs is not None),
            (USELESS["--tokenizer"], tokenizer, task != "translate" or sources.pairs is not None),
            (USELESS["vocab"], self.changes.get("vocab"), False),
            (USELESS["--chat"], sources.chat, task == "lm" and self.base is not None),
            (USELESS["--chat and --text"], sources.chat, sources.text is None),
            (USELESS["lora"], lora, self.base is not None),
            (FIXED_BY_BASE["--preset"], self.preset, self.base is None),
            (FIXED_BY_BASE["--tokenizer"], tokenizer, self.base is None),
        ):
            if value is not None and not is_useful:
                raise Problem(sentence, value=value, task=task)

    def run_name(self) -> str:
        """Return TASK-NAME, NAME being that of the data; -MODEL follows with a base, and -lora with an adapter."""
        data = "dates" if self.task == "translate" and self.sources.pairs is None else self.sources.name
        base = [] if self.base is None else [Path(self.base).stem]
        return "-".join([self.task, data, *base, *(["lora"] if self.changes.get("lora") else [])])


@dataclass
class Run:
    """A run that is ready to train: its task, model, optimizers and folder."""

    folder: Path
    task: Task
    model: Transformer
    settings: Settings
    optimizers: list[torch.optim.Optimizer]
    watch: Watch | None
    state: State | None
    world: World
    why: list[Reason]  # the reason for each automatic choice
    tuned: bool = False  # True for fine-tuning
    threads: int | None = None  # None: PyTorch's default
    lock: RunLock | None = None  # held by the first process until training ends

    def train(self, report: Report = lambda line: None) -> State:
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
                evaluate_first=self.tuned,
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
    changes: Changes | None = None,
    tokenizer: str | text.Tokenizer = "auto",
    watch: str | None = None,
    world: World | None = None,
    progress: Progress | None = None,
) -> Run:
    """Start a run in a new folder: prepare the data, choose the settings, store both, and open the run.

    `tokenizer` is a kind to train, or a trained one. With `base` (a name, a folder, a .gguf file, a run) that model is
    fine-tuned, and its tokenizer is kept.
    """
    options = StartOptions(
        parse_task(task), Sources(source, pairs, chat), base, name, tokenizer, dict(changes or {}), watch
    )
    options.check()
    world = world or World()
    preset = None
    if base is None:  # refuse wrong settings before reading a text, which can take long
        preset = resolve_preset(name or "tiny", options.task, options.changes)
        world.check(preset.settings)
        check_machine(preset.settings)
    folder = out or Path("runs") / options.run_name()
    with _new_folder(folder, world) as lock:
        record = world.once(partial(create_run, folder, options, preset, world, progress))
        return open_run(folder, record, world, lock, is_new=True)


def create_run(
    folder: Path, options: StartOptions, preset: ResolvedPreset | None, world: World, progress: Progress | None
) -> RunRecord:
    """Prepare the data in the folder, choose the settings, and return the record for config.json."""
    if (folder / run_folder.CONFIG).exists():
        raise Problem(
            "{folder} holds a run already: go on with `qkv train --resume {folder}`, or choose another --out",
            folder=folder,
        )
    why: list[Reason] = []
    base = None
    if preset is not None:  # a new model: size from the preset, tokenizer trained on the text
        for word, was in preset.yielded.items():
            why.append(("why.yields", {"name": word, "has": setting_text(getattr(preset.config, word)), "was": was}))
        data = prepare_data(options.task, folder, options.sources, options.tokenizer, progress, why)
        config, settings = preset.config.replace(vocab=text.load(folder).vocab), preset.settings
    else:  # fine-tuning: size and tokenizer of the base, few steps at a low rate
        from .fine_tuning import prepare_fine_tuning

        config, settings, data, base = prepare_fine_tuning(folder, options, world, progress, why)
    tokens = settings.batch // world.size * (settings.row or config.context)
    thread_count = threads_for(empty_model(config).count(), tokens)
    return {
        "qkv": __version__,
        "task": options.task,
        "preset": None if preset is None else options.preset or "tiny",
        "base": base,
        "threads": thread_count,
        "model": config.to_dict(),
        "train": settings.to_dict(),
        "data": data,
        "watch": options.watch,
        "why": [*why, *device_reasons(settings, thread_count)],
    }


def open_run(folder: Path, record: RunRecord, world: World, lock: RunLock | None, *, is_new: bool = False) -> Run:
    """Open the task, model, optimizers and newest undamaged checkpoint that a record describes."""
    settings = read_settings(record["train"])
    checkpoint, damaged = world.once(partial(_newest_checkpoint, folder))
    # A checkpoint with all weights makes the base unnecessary.
    config = run_config(folder, record, checkpoint if settings.lora is None else None)
    base = None if checkpoint is not None and settings.lora is None else record["base"]
    tokenizer = text.load(folder)
    task = open_task(record, folder, tokenizer, config, settings)
    watch = None
    if record["watch"] is not None:
        from .watch import Watch

        watch = Watch(folder, record["watch"], tokenizer, config.context if config.position == "learned" else None)
    check_memory(config, settings, world)
    if is_new:  # last, because config.json makes the folder a run
        record["why"] += task_reasons(task, settings.row)
        world.once(partial(run_folder.write_record, folder, record))

    torch.manual_seed(settings.seed)
    model = Transformer(config) if base is None else load_base(folder, base, config)
    model = model.to(world.device).train()
    if settings.dtype == "float64":
        model = model.double()
    if settings.lora is not None:
        from ..formats.adapters import adapt

        assert base is not None
        adapt(model, settings.lora, settings.lora_alpha, settings.lora_parts, base["place"])
    model = world.prepare(model)
    optimizers = make_optimizers(model, settings)
    state = None if checkpoint is None else world.load(checkpoint, model, optimizers)

    why: list[Reason] = [*record["why"], *(("why.damaged", {"problem": check(p)}) for p in damaged)]
    if world.size > 1:
        why.append(("why.processes", {"n": world.size, "kind": world.kind}))
    if state is not None and (change := world.difference(state)):
        why.append(("why.world", change))
    tuned, thread_count = record["base"] is not None, record["threads"]
    return Run(folder, task, model, settings, optimizers, watch, state, world, why, tuned, thread_count, lock)


@contextmanager
def _new_folder(folder: Path, world: World) -> Iterator[RunLock | None]:
    """Make and lock the folder of a new run. If the set-up fails, remove whatever it created.

    Ctrl-C leaves the tokens that were written so far: the same command continues with them.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    world.once(partial(folder.mkdir, parents=True, exist_ok=True))
    lock = lock_first(folder, world)
    was_empty = lock is not None and [child.name for child in folder.iterdir()] == [run_folder.LOCK]
    try:
        yield lock
    except Exception:
        if lock is not None:
            if was_empty:
                for child in folder.iterdir():
                    if child.name != run_folder.LOCK:
                        shutil.rmtree(child) if child.is_dir() else child.unlink()
            lock.release()
            for path in created:
                if path.is_dir() and not any(path.iterdir()):
                    path.rmdir()
        raise


def resume(folder: Path, world: World | None = None, asked: ResumeOptions | None = None) -> Run:
    """Resume a run from its newest undamaged checkpoint, or from the beginning if it has none; see resume_options.py."""
    world = world or World()
    run_folder.read_record(folder)  # a folder that is not a run gets no lock file
    lock = lock_first(folder, world)
    try:
        if asked is not None:
            source, pairs = (None if path is None else store.locate(path) for path in (asked.source, asked.pairs))
            world.once(partial(_apply_options, folder, replace(asked, source=source, pairs=pairs)))
        record = read_run_record(folder)
        settings = read_settings(record["train"])
        if settings.lora is not None and record["base"] is None:
            raise Problem(
                "lora is {rank}, but there is no model whose weights could stay as they are", rank=settings.lora
            )
        check_machine(settings)
        return open_run(folder, record, world, lock)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _apply_options(folder: Path, options: ResumeOptions) -> None:
    """Refuse options that can't change, and store those that can."""
    record = read_run_record(folder)
    if record["base"] is not None:
        from .fine_tuning import run_changes

        options = replace(options, changes=run_changes(options.changes))
    check_resume(options, folder, record)
    if changes := new_settings(options, record):
        checkpoint, _ = _newest_checkpoint(folder)
        done = 0 if checkpoint is None else run_folder.read_state(checkpoint)["step"]
        run_folder.write_record(folder, extend(folder, record, changes, done))


def _newest_checkpoint(folder: Path) -> tuple[Path | None, list[Path]]:
    """Return the newest undamaged checkpoint and the damaged ones after it."""
    checkpoint = run_folder.newest(folder / run_folder.CHECKPOINTS)
    every = run_folder.checkpoints(folder / run_folder.CHECKPOINTS)
    damaged = every if checkpoint is None else every[every.index(checkpoint) + 1 :]
    if checkpoint is None and damaged:  # training from step 0 would overwrite data that can perhaps be saved
        raise Problem(
            "{folder} has {n} checkpoints and none is whole, so there is nothing to go on from: {problem}. "
            "Nothing was changed. To train it anew from step 0, move {folder}/checkpoints away and say  qkv train "
            "--resume {folder}",
            folder=folder,
            n=len(damaged),
            problem=check(damaged[-1]),
        )
    return checkpoint, damaged
