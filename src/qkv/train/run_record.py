"""The config.json of a run, typed: what it learns from, what it trains, how, and why each was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, get_args

from ..disk import run_folder
from .reasons import Reason, is_sayable
from .settings import FINE_TUNED, Changes, TaskName

DataKind = Literal["chats", "dates", "labels", "pairs", "text"]


class DataRecord(TypedDict):
    """What a run learns from; dates are made up, so they have no source."""

    kind: DataKind
    labels: NotRequired[list[str]]
    source: NotRequired[str | None]
    sha256: NotRequired[str]


class BaseRecord(TypedDict):
    """The model that a run goes on from: where it lies, and the hash of its weights."""

    place: str
    sha256: str


class RunRecord(TypedDict):
    """All of config.json but its format."""

    qkv: str
    task: TaskName
    preset: str | None
    base: BaseRecord | None
    threads: int | None
    model: Changes
    train: Changes
    data: DataRecord
    watch: str | None
    why: list[Reason]


def _is_base(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("place", "sha256"))


# What must be right in the config.json of a run that is to go on.
CHECKS: Mapping[str, Callable[[object], bool]] = {
    "task": lambda value: isinstance(value, str) and value in FINE_TUNED,
    "model": lambda value: isinstance(value, dict),
    "train": lambda value: isinstance(value, dict),
    "base": lambda value: value is None or _is_base(value),
    "data": lambda value: isinstance(value, dict) and value.get("kind") in get_args(DataKind),
    "watch": lambda value: value is None or isinstance(value, str),
    "why": is_sayable,
    "preset": lambda value: value is None or isinstance(value, str),
    "threads": lambda value: value is None or (type(value) is int and 0 < value < 1000),
}


def read_run_record(folder: Path) -> RunRecord:
    """Return the config.json of a run that is to go on; one with missing or impossible values is refused."""
    record: RunRecord = run_folder.read_complete_record(folder, CHECKS)
    return record
