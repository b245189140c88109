"""The folder of a run on the disk: read and written here alone, readable by eye.

    config.json           model, settings, data, and why things were chosen so
    tokens/, pairs.tsv or chats.jsonl    what it learns from; beside it the files of its tokenizer (`text`)
    metrics.jsonl         how it went, a line per report
    samples.txt           what it wrote on the way
    .lock                 there while it is trained: which process does it (train/lock.py)
    watch/000200.safetensors    the attention of a probe sentence as it forms
    checkpoints/000200/   state.json · model.safetensors · optimizer.safetensors, or shards/ of many processes;
                          adapter_config.json · adapter_model.safetensors instead of the model, where one learns beside it

A checkpoint is there wholly or not at all: written aside, every file flushed to the disk, then renamed. Its state.json
lists each file's size and sha256. Needs no torch and knows no training: who writes with a model opens its run here.
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
ADAPTER = (
    "adapter_config.json",
    "adapter_model.safetensors",
)  # instead of weights, of a run that learns beside a model
SHARDS = "shards"  # the folder inside a checkpoint where many processes wrote their slices
RUN, CHECKPOINT = "qkv run 1", "qkv checkpoint 1"  # what the two JSON files call their format
DEFAULTS = {"preset": None, "threads": None, "base": None}  # what runs of November 2026 don't say yet

Record = bounded_reading.JsonObject  # config.json


class FileRecord(TypedDict):
    """What state.json says of a file of its checkpoint."""

    bytes: int
    sha256: str


class WorldRecord(TypedDict):
    """What state.json says of the processes that wrote it."""

    parallel: str
    processes: int


class State(TypedDict):
    """How far a run is, as the state.json of a checkpoint says it."""

    step: int
    best_loss: NotRequired[float | None]
    best_step: NotRequired[int | None]
    seconds: NotRequired[float]
    waited: NotRequired[int]  # evaluations since the best one
    parallel: NotRequired[str]
    processes: NotRequired[int]
    format: NotRequired[str]
    files: NotRequired[dict[str, FileRecord]]  # those of the checkpoint, by their names in it


def is_run(config: Record) -> bool:
    """Is this the config.json of a run, or at least meant as one?"""
    return "format" in config


def not_a_run(folder: Path) -> Problem:
    """The problem of a folder without config.json."""
    return Problem(
        "{folder} is no run of qkv and no published model: there is no {file}. Train one with `qkv train`, or "
        "see what can be had with `qkv models`",
        folder=folder,
        file=folder / CONFIG,
    )


def read_record(folder: Path) -> Record:
    """The config.json of a run."""
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
    """The same of a run that is to go on: each of these keys must be there and be right. Its type is the caller's."""
    file, record = folder / CONFIG, {**DEFAULTS, **read_record(folder)}
    for key, is_valid in validators.items():
        if key not in record:
            raise Problem(
                "{file} has no {key}: it was changed or cut short, so the run can't go on", file=file, key=key
            )
        if not is_valid(record[key]):
            excerpt = repr(record[key])[:80]
            why = Message("{key!r} is {shown}, which no run has", key=key, shown=excerpt)
            raise Problem("{file} can't be read: {error}", file=file, error=why)
    return record


def first_watched_step(folder: Path) -> int | None:
    """The step at which a run first keeps the attention it is to watch; None where nothing says that it keeps any."""
    file = folder / CONFIG
    unread = _("{file} can't be read as it should: {why}. Fetch or copy it again")
    record = bounded_reading.read_json(file, unread) if file.is_file() else {}
    settings = record.get("train") if isinstance(record, dict) else None
    if not isinstance(settings, dict) or not record.get("watch") or not isinstance(settings.get("eval_every"), int):
        return None
    if record.get("base"):  # it is looked at before it learns anything
        return 0
    return min(settings["eval_every"], settings.get("steps") or settings["eval_every"])


def write_record(folder: Path, record: Mapping[str, object]) -> None:
    """Write config.json, wholly or not at all."""
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
    """Return what a run named by its step (000200, 1000000), in the order of steps; other names are not the run's."""
    steps = {file.name.removesuffix(ending): file for file in folder.glob(f"[0-9]*{ending}")}
    return dict(sorted((int(name), file) for name, file in steps.items() if _is_step(name)))


def _is_step(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 20 and name == f"{int(name):06d}"


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, whole or not, the oldest first."""
    return [path for path in numbered(folder).values() if path.is_dir()]


def best(folder: Path) -> Path:
    """The checkpoint of a run with the lowest validation loss, else the newest."""
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
    """The newest checkpoint that is whole; half-written and damaged ones are passed over."""
    return next((checkpoint for checkpoint in reversed(checkpoints(folder)) if check(checkpoint) is None), None)


def check(checkpoint: Path) -> Problem | None:
    """What is wrong with a checkpoint, or None."""
    try:
        state = read_state(checkpoint)
        if state.get("format") != CHECKPOINT:
            return Problem(
                "{place} is {found!r}, this version reads {known!r}",
                place=checkpoint,
                found=state.get("format"),
                known=CHECKPOINT,
            )
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
    """A checkpoint's state.json, if every value in it is what training writes there."""
    file = checkpoint / STATE
    table = _table(file)

    def is_count(value: object) -> bool:
        return type(value) is int and 0 <= value < 1 << 53

    def is_number(value: object) -> bool:
        return type(value) is float or (type(value) is int and abs(value) < 1 << 53)  # a larger one is no float

    # A name leads nowhere but into the checkpoint: its own files, and those of shards/.
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
    """Return the files of shards/ that state.json lists; any other file there is not the checkpoint's."""
    return [checkpoint / name for name in sorted(state["files"]) if name.startswith(f"{SHARDS}/")]


def is_adapter(checkpoint: Path) -> bool:
    """Does a checkpoint hold what was learned beside a model, and not a model?"""
    return (checkpoint / ADAPTER[0]).is_file()


def weights_file(folder: Path, checkpoint: Path) -> Path:
    """The weights of a run's checkpoint; those that aren't what training wrote are refused, not used as if they were."""
    *others, name = ADAPTER if is_adapter(checkpoint) else (WEIGHTS,)
    if problem := next(
        filter(None, (find_change(checkpoint, file, read_state(checkpoint)) for file in (*others, name))), None
    ):
        raise Problem(
            "{problem}. It is not used: put the file back from a copy, remove {place} so that another checkpoint "
            "of the run is taken, or train on from the newest whole one with `qkv train --resume {folder}`",
            problem=problem,
            place=checkpoint,
            folder=folder,
        )
    return checkpoint / name


def find_change(checkpoint: Path, name: str, state: State) -> Problem | None:
    """How a file of a checkpoint differs from what state.json says of it, or None if it doesn't."""
    file, expected = checkpoint / name, state["files"].get(name)
    if expected is None:
        why = Message("it does not list {name}", name=name)
        return bounded_reading.unusable_file(checkpoint / STATE, _("{file} can't be read: {error}"), why)
    if not file.is_file():  # a device or a pipe is none, and has no end
        return Problem("{file} is missing, or is no regular file: the checkpoint is not whole", file=file)
    if (size := file.stat().st_size) != expected["bytes"]:
        return Problem(
            "{file} has {found} bytes, {known} were written: it was cut short",
            file=file,
            found=size,
            known=expected["bytes"],
        )
    if fingerprint(file)["sha256"] != expected["sha256"]:
        return Problem("{file} is not what was written: its content changed", file=file)
    return None


def fingerprint(path: Path) -> FileRecord:
    """A file's size and sha256."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def begin_checkpoint(folder: Path, step: int) -> Path:
    """An empty folder to write checkpoint STEP in, aside."""
    temporary = folder / f".{step:06d}.part"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    return temporary


def finish_checkpoint(
    temporary: Path, step: int, state: State, weights: Mapping[str, bytes], listed: dict[str, FileRecord]
) -> Path:
    """Add the files of the weights and state.json (which lists other files too) and give the checkpoint its name; gives its path.

    All but the last two and the best are removed then.
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
    """Leave nothing half-written behind, and say what a full disk means."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(folder / f".{step:06d}.part", ignore_errors=True)
        if error.errno != errno.ENOSPC:
            raise
        last_good = newest(folder)
        raise Problem(
            _(
                "the disk is full: checkpoint {step} was not written, the last good checkpoint is {kept}; free some "
                "space and resume"
            )
            if last_good
            else _(
                "the disk is full: checkpoint {step} was not written, no checkpoint could be written yet; free some "
                "space and resume"
            ),
            step=step,
            kept=last_good,
        ) from error


def write_flushed(path: Path, content: bytes) -> FileRecord:
    """Write a file through to the disk; gives its size and sha256."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _table(file: Path) -> Any:
    return bounded_reading.read_table(file, _("{file} can't be read: {error}"))
