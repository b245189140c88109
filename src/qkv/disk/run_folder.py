"""The layout of a training run's folder, and access to config.json, metrics.jsonl and checkpoints.

    config.json           model, settings, data, and the reasons for automatic choices
    tokens/, pairs.tsv or chats.jsonl    training data, next to the files of the tokenizer (qkv.text)
    metrics.jsonl         one line per report
    samples.txt           texts generated during training
    .lock                 names the training process (train/lock.py)
    watch/000200.safetensors    the attention of a probe sentence at step 200
    checkpoints/000200/   state.json · model.safetensors · optimizer.safetensors, or shards/ of several processes;
                          with LoRA adapter_config.json · adapter_model.safetensors instead of the model

Checkpoints are atomic: written to a temporary folder, every file flushed to the disk, then renamed. state.json lists each
file's size and sha256. This module doesn't import torch, so commands can open a run without it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from ..i18n import Message, Notice, Problem, _, all_of, quoted
from . import bounded_reading
from .atomic_files import flush_folder, write_file

CONFIG, METRICS, SAMPLES, LOCK = "config.json", "metrics.jsonl", "samples.txt", ".lock"
PAIRS, CHATS = "pairs.tsv", "chats.jsonl"
TOKENS, WATCH, CHECKPOINTS = "tokens", "watch", "checkpoints"
STATE, WEIGHTS, OPTIMIZER = "state.json", "model.safetensors", "optimizer.safetensors"  # of a checkpoint
ADAPTER = ("adapter_config.json", "adapter_model.safetensors")  # instead of WEIGHTS in a LoRA run
SHARDS = "shards"  # folder inside a checkpoint with the slices of several processes
RUN, CHECKPOINT = "qkv run 1", "qkv checkpoint 1"  # format names in the two JSON files
DEFAULTS = {"preset": None, "threads": None, "base": None}  # keys that runs of November 2026 don't have

Record = bounded_reading.JsonObject  # config.json


class FileRecord(TypedDict):
    """A file of a checkpoint, as listed in state.json."""

    bytes: int
    sha256: str


class WorldRecord(TypedDict):
    """The processes that wrote a checkpoint, as listed in state.json."""

    parallel: str
    processes: int


class State(TypedDict):
    """The content of a checkpoint's state.json."""

    step: int
    best_loss: NotRequired[float | None]
    best_step: NotRequired[int | None]
    seconds: NotRequired[float]
    waited: NotRequired[int]  # evaluations since the best one
    parallel: NotRequired[str]
    processes: NotRequired[int]
    format: NotRequired[str]
    files: NotRequired[dict[str, FileRecord]]  # by path within the checkpoint


def is_run(config: Record) -> bool:
    """True if this is the config.json of a run, of any version."""
    return "format" in config


def not_a_run(folder: Path) -> Problem:
    """Return the Problem of a folder without config.json."""
    return Problem(
        "{folder} is neither a run of qkv nor a published model: {file} is missing. Train one with `qkv train`, "
        "or list models with `qkv models`",
        folder=folder,
        file=folder / CONFIG,
    )


def read_record(folder: Path) -> Record:
    """Return the config.json of a run."""
    file = folder / CONFIG
    if not file.is_file():
        raise not_a_run(folder)
    config = _table(file)
    if not is_run(config):
        raise Problem("{file} can't be read: {error}", file=file, error=Message("it has no 'format'"))
    if not str(config["format"]).startswith("qkv run"):
        raise Problem("{file} is {format}: this version reads 'qkv run 1'", file=file, format=repr(config["format"]))
    return config


def read_complete_record(folder: Path, validators: Mapping[str, Callable[[object], bool]]) -> Any:
    """Return the config.json of a run to resume, after checking that each key is present and passes its validator."""
    file, record = folder / CONFIG, {**DEFAULTS, **read_record(folder)}
    for key, is_valid in validators.items():
        if key not in record:
            raise Problem(
                "{file} has no {key}: it was changed or cut short, so the run can't be resumed", file=file, key=key
            )
        if not is_valid(record[key]):
            excerpt = repr(record[key])[:80]
            why = Message("{key!r} is {shown}, which is not valid", key=key, shown=excerpt)
            raise Problem("{file} can't be read: {error}", file=file, error=why)
    return record


def first_watched_step(folder: Path) -> int | None:
    """Return the first step at which a run saves the watched attention; None if it doesn't watch any."""
    file = folder / CONFIG
    unread = _("{file} can't be read as it should: {why}. Fetch or copy it again")
    record = bounded_reading.read_json(file, unread) if file.is_file() else {}
    settings = record.get("train") if isinstance(record, dict) else None
    if not isinstance(settings, dict) or not record.get("watch") or not isinstance(settings.get("eval_every"), int):
        return None
    if record.get("base"):  # fine-tuning also saves it before the first step
        return 0
    return min(settings["eval_every"], settings.get("steps") or settings["eval_every"])


def write_record(folder: Path, record: Mapping[str, object]) -> None:
    """Write config.json atomically."""
    write_file(folder / CONFIG, json.dumps({"format": RUN, **record}, indent=1, ensure_ascii=False) + "\n")


def read_metrics(file: Path) -> list[tuple[int, str]]:
    """Return the step and the text of each line of metrics.jsonl. Damaged lines are skipped; a Notice gives their numbers."""
    lines, damaged = [], []
    with file.open("rb") as opened:
        for number, raw in enumerate(opened, 1):
            if not raw.endswith(b"\n"):  # the process was killed while it wrote its last line
                break
            try:
                step, text = json.loads(raw)["step"], raw.decode().rstrip("\r\n")
            except (ValueError, LookupError, TypeError, RecursionError):
                step, text = None, ""
            if type(step) is int:
                lines.append((step, text))
            else:
                damaged.append(number)
    if damaged:
        line_numbers = all_of([*damaged[:10], *["…"] * (len(damaged) > 10)])
        notice = Notice("{file} had damaged lines, which were left out: {lines}", file=file, lines=line_numbers)
        warnings.warn(notice, stacklevel=2)
    return lines


def numbered(folder: Path, ending: str = "") -> dict[int, Path]:
    """Return the files of a folder that are named by a step (000200, 1000000), sorted by step."""
    steps = {file.name.removesuffix(ending): file for file in folder.glob(f"[0-9]*{ending}")}
    return dict(sorted((int(name), file) for name, file in steps.items() if _is_step(name)))


def _is_step(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 20 and name == f"{int(name):06d}"


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, oldest first, damaged ones included."""
    return [path for path in numbered(folder).values() if path.is_dir()]


def best(folder: Path) -> Path:
    """Return the checkpoint with the lowest validation loss, else the newest."""
    candidates: list[tuple[float, int, Path]] = []
    damaged: Problem | None = None
    for checkpoint in checkpoints(folder / CHECKPOINTS):
        try:
            state = read_state(checkpoint)
        except Problem as problem:
            damaged = damaged or problem
            continue
        candidates.append((0.0 if state.get("best_step") == state["step"] else 1.0, -state["step"], checkpoint))
    if not candidates:
        raise damaged or Problem(
            "{folder} has no checkpoint yet: go on with `qkv train --resume {folder}`", folder=folder
        )
    return min(candidates)[2]


def newest(folder: Path) -> Path | None:
    """Return the newest undamaged checkpoint, or None."""
    return next((checkpoint for checkpoint in reversed(checkpoints(folder)) if check(checkpoint) is None), None)


def check(checkpoint: Path) -> Problem | None:
    """Return what is wrong with a checkpoint, or None."""
    try:
        state = read_state(checkpoint)
        if state.get("format") != CHECKPOINT:
            sentence = _("{place} is {found!r}, this version reads {known!r}")
            return Problem(sentence, place=checkpoint, found=state.get("format"), known=CHECKPOINT)
        weights = list(ADAPTER) if ADAPTER[0] in state["files"] else [WEIGHTS]
        needed = weights + [OPTIMIZER] * (not shard_files(checkpoint, state))
        for name in dict.fromkeys([*needed, *state["files"]]):
            if problem := find_change(checkpoint, name, state):
                return problem
    except Problem as problem:
        return problem
    except OSError as error:
        return Problem("{place} can't be read: {error}", place=checkpoint, error=quoted(error))
    return None


def read_state(checkpoint: Path) -> State:
    """Return a checkpoint's state.json after validating its values."""
    file = checkpoint / STATE
    table = _table(file)

    def is_count(value: object) -> bool:
        return type(value) is int and 0 <= value < 1 << 53

    def is_number(value: object) -> bool:
        return type(value) is float or (type(value) is int and abs(value) < 1 << 53)  # exact as a float

    # File names must stay within the checkpoint, at most one folder deep (shards/).
    validators = {
        "step": is_count,
        "best_step": lambda value: value is None or is_count(value),
        "waited": is_count,
        "best_loss": lambda value: value is None or is_number(value),
        "seconds": lambda value: is_number(value) and math.isfinite(value),
        "parallel": lambda value: isinstance(value, str),
        "processes": is_count,
        "files": lambda value: (
            isinstance(value, dict)
            and all(bounded_reading.is_plain(name, depth=2) for name in value)
            and all(isinstance(record, dict) and is_count(record.get("bytes")) for record in value.values())
            and all(isinstance(record.get("sha256"), str) for record in value.values())
        ),
    }
    for name, is_valid in validators.items():
        if (name in table or name in ("step", "files")) and not is_valid(table.get(name)):
            excerpt = repr(table.get(name))[:80]
            why = Message("{name!r} is {shown}, which training never writes", name=name, shown=excerpt)
            raise bounded_reading.unusable_file(file, _("{file} can't be read: {error}"), why)
    state: State = table
    return state


def shard_files(checkpoint: Path, state: State) -> list[Path]:
    """Return the files of shards/ that state.json lists; other files are ignored."""
    return [checkpoint / name for name in sorted(state["files"]) if name.startswith(f"{SHARDS}/")]


def is_adapter(checkpoint: Path) -> bool:
    """True if a checkpoint holds a LoRA adapter instead of a model."""
    return (checkpoint / ADAPTER[0]).is_file()


def weights_file(folder: Path, checkpoint: Path) -> Path:
    """Return the weights file of a checkpoint; raise if its files differ from what training wrote."""
    *others, name = ADAPTER if is_adapter(checkpoint) else (WEIGHTS,)
    if problem := next(
        filter(None, (find_change(checkpoint, file, read_state(checkpoint)) for file in (*others, name))), None
    ):
        raise Problem(
            "{problem}. It is not used: restore the file from a copy, remove {place} so that another checkpoint "
            "of the run is used, or resume from the newest complete one with `qkv train --resume {folder}`",
            problem=problem,
            place=checkpoint,
            folder=folder,
        )
    return checkpoint / name


def find_change(checkpoint: Path, name: str, state: State) -> Problem | None:
    """Return how a file of a checkpoint differs from its entry in state.json, or None."""
    file, expected = checkpoint / name, state["files"].get(name)
    if expected is None:
        why = Message("it does not list {name}", name=name)
        return bounded_reading.unusable_file(checkpoint / STATE, _("{file} can't be read: {error}"), why)
    if not file.is_file():  # devices and pipes have no end
        return Problem("{file} is missing or not a regular file: the checkpoint is incomplete", file=file)
    if (size := file.stat().st_size) != (known := expected["bytes"]):
        return Problem(
            "{file} has {found} bytes, {known} were written: it was cut short", file=file, found=size, known=known
        )
    if fingerprint(file)["sha256"] != expected["sha256"]:
        return Problem("{file} is not what was written: its content changed", file=file)
    return None


def fingerprint(path: Path) -> FileRecord:
    """Return a file's size and sha256."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def begin_checkpoint(folder: Path, step: int) -> Path:
    """Create an empty temporary folder for the checkpoint of a step."""
    temporary = folder / f".{step:06d}.part"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    return temporary


def finish_checkpoint(
    temporary: Path, step: int, state: State, weights: Mapping[str, bytes], listed: dict[str, FileRecord]
) -> Path:
    """Write the weights and state.json, rename the temporary folder to its final name and return that path.

    `listed` has the files that were written before. All checkpoints but the last two and the best are removed.
    """
    folder, checkpoint = temporary.parent, temporary.parent / f"{step:06d}"
    listed = {**{name: write_flushed(temporary / name, content) for name, content in weights.items()}, **listed}
    record = {"format": CHECKPOINT, "step": step, **state, "files": listed}
    write_flushed(temporary / STATE, json.dumps(record, indent=1, ensure_ascii=False).encode())
    for parent in {(temporary / name).parent for name in listed}:
        flush_folder(parent)
    shutil.rmtree(checkpoint, ignore_errors=True)
    os.rename(temporary, checkpoint)
    flush_folder(folder)
    for old in checkpoints(folder)[:-2]:
        if int(old.name) != state.get("best_step"):
            shutil.rmtree(old, ignore_errors=True)
    return checkpoint


@contextmanager
def checkpoint_cleanup(folder: Path, step: int) -> Iterator[None]:
    """Remove the temporary folder after an error, and explain a full disk."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(folder / f".{step:06d}.part", ignore_errors=True)
        if error.errno != errno.ENOSPC:
            raise
        last_good = newest(folder)
        saved = _(
            "the disk is full: checkpoint {step} was not written, the last good checkpoint is {kept}; free some space "
            "and resume"
        )
        none_saved = _(
            "the disk is full: checkpoint {step} was not written, no checkpoint could be written yet; free some space "
            "and resume"
        )
        raise Problem(saved if last_good else none_saved, step=step, kept=last_good) from error


def write_flushed(path: Path, content: bytes) -> FileRecord:
    """Write a file, flush it to the disk and return its size and sha256."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _table(file: Path) -> Any:
    return bounded_reading.read_table(file, _("{file} can't be read: {error}"))
