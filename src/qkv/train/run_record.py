"""The types of a run's config.json: its data, model, settings, and the reasons for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, get_args

from ..disk import run_folder
from .reasons import Reason, is_sayable
from .settings import FINE_TUNED, Changes, TaskName

DataKind = Literal["chats", "dates", "labels", "pairs", "text"]


class DataRecord(TypedDict):
    """The data of a run. Dates are generated and have no source."""

    kind: DataKind
    labels: NotRequired[list[str]]
    source: NotRequired[str | None]
    sha256: NotRequired[str]


class BaseRecord(TypedDict):
    """The model that a run fine-tunes: its location and the hash of its weights."""

    place: str
    sha256: str


class RunRecord(TypedDict):
    """config.json without its `format`."""

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


# Checks of a config.json before its run is resumed.
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
    """Return the config.json of a run to resume. Missing or impossible values are refused."""
    record: RunRecord = run_folder.read_complete_record(folder, CHECKS)
    return record
