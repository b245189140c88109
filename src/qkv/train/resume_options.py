"""What a run that goes on can be asked for: more steps, what it has already, and nothing else.

Its batches and weights follow from what it was begun with, so most settings can't change half way. More steps can: from
the step where it goes on, the learning rate follows the plan for the new number; what was trained before is unchanged,
and the run remembers both plans, so that it can be stopped and gone on with like any other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import text
from ..i18n import Problem
from ..model.config import Config
from ..text.conversations import as_jsonl, read_chats
from .settings import Settings, both_set, known, preset

CHANGEABLE = ("steps", "eval_every", "checkpoint_every", "patience")  # what moves no weight of a step that was done
Reason = tuple[str, dict[str, Any]]  # a sentence of i18n.py and what fills it, so that it can be said in any language


@dataclass(frozen=True)
class Asked:
    """What somebody says beside `--resume`; None where nothing was said. `source` and `pairs` are paths."""

    task: str | None = None
    out: Path | None = None
    source: str | None = None
    pairs: str | None = None
    chat: str | None = None
    base: str | None = None
    preset: str | None = None
    tokenizer: str | None = None
    watch: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)


def refuse(asked: Asked, folder: Path, record: dict[str, Any]) -> None:
    """Refuse by name what the run has otherwise and can't change."""

    def fixed(name: str, has: Any, wanted: Any) -> Problem:
        return Problem(
            "{name} is {has} in {folder} and can't become {asked} while the run goes on: leave it out, or begin a "
            "new run. What can change: --steps, --eval-every, --checkpoint-every",
            folder=folder,
            name=name,
            has=shown(has),
            asked=shown(wanted),
        )

    known(asked.changes)
    if asked.task not in (None, record["task"]):
        raise fixed("task", record["task"], asked.task)
    if asked.out is not None and asked.out.resolve() != folder.resolve():
        raise fixed("--out", folder, asked.out)
    for option, source, kinds in (
        ("--text", asked.source, ("text",)),
        ("--pairs", asked.pairs, ("pairs", "labels")),
        ("--chat", asked.chat, ("chats",)),
    ):
        if source is not None:
            if record["data"]["kind"] not in kinds:
                raise fixed(option, None, source)
            if _sha256(record["data"]["kind"], source) != record["data"]["sha256"]:
                raise Problem(
                    "{source} is not the text that {folder} was begun with (its content changed): a run goes on with its "
                    "own data; leave {option} out, or begin a new run",
                    option=option,
                    source=source,
                    folder=folder,
                )
    if asked.base is not None and (record["base"] is None or lies(asked.base) != record["base"]["place"]):
        raise fixed("--from", None if record["base"] is None else record["base"]["place"], asked.base)
    if asked.watch not in (None, record["watch"]):
        raise fixed("--watch", record["watch"], asked.watch)
    if asked.tokenizer not in (None, "auto", kind := text.load(folder).kind):
        raise fixed("--tokenizer", kind, asked.tokenizer)
    has = values(record)
    if asked.preset is not None and not _same_preset(asked.preset, record, has):
        raise fixed("--preset", record["preset"], asked.preset)
    for name, value in asked.changes.items():
        if name not in CHANGEABLE and not _equal(has[name], value):
            raise fixed(name, has[name], value)


def values(record: dict[str, Any]) -> dict[str, Any]:
    """Every setting of a run by name, of the model and of the training."""
    every = Config.from_dict(record["model"]).to_dict() | settings_of(record).to_dict()
    return json.loads(json.dumps(every))  # as they would be asked for


def settings_of(record: dict[str, Any]) -> Settings:
    """How a run is trained."""
    return both_set(Config(), Settings(), record["train"])[1]


def changed(asked: Asked, record: dict[str, Any]) -> dict[str, Any]:
    """The settings that will be others from here on."""
    has = values(record)
    return {k: v for k, v in asked.changes.items() if k in CHANGEABLE and not _equal(has[k], v)}


def extend(folder: Path, record: dict[str, Any], changes: dict[str, Any], done: int) -> dict[str, Any]:
    """The run's record with these changes from step `done` on; what each was is kept, and told."""
    was = settings_of(record)
    why: list[Reason] = list(record["why"])
    if "steps" in changes:
        now = replace(was, steps=changes["steps"])  # refuses what is no number of steps
        if now.steps < done:
            raise Problem(
                "{folder} has done {done} steps already, and {asked} were asked for: give --steps {done} or more, or "
                "leave it out",
                folder=folder,
                done=done,
                asked=now.steps,
            )
        before = [plan for plan in was.before if plan[0] < done]
        if done and was.planned(done - 1) != now.steps:
            before.append((done, was.planned(done - 1)))
        changes = {**changes, "before": before}
        why.append(("why.steps", {"was": was.steps, "now": now.steps, "done": done}))
    for name in changes.keys() & {"eval_every", "checkpoint_every", "patience"}:
        why.append(("why.now", {"name": name, "was": getattr(was, name), "now": shown(changes[name])}))
    return {**record, "train": replace(was, **changes).to_dict(), "why": why}


def lies(name: str) -> str:
    """Where a model to go on from lies: a folder or a file as a whole path, else its name."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _same_preset(name: str, record: dict[str, Any], has: dict[str, Any]) -> bool:
    """By name, where the run kept it; runs that are older have that preset if they have all its settings."""
    if record["base"] is not None:
        return False
    config, settings = preset(name, record["task"])
    if record["preset"] is not None:
        return record["preset"] == name
    meant = json.loads(json.dumps(config.to_dict() | settings.to_dict()))
    return all(_equal(has[key], meant[key]) for key in meant if key not in ("vocab", *CHANGEABLE))


def _equal(has: Any, wanted: Any) -> bool:
    return has == wanted and isinstance(has, bool) == isinstance(wanted, bool)


def _sha256(kind: str, source: str) -> str:
    if kind == "text":
        return text.Corpus.of(source).sha256()
    if kind == "chats":
        return hashlib.sha256(as_jsonl(read_chats(source)).encode()).hexdigest()
    return hashlib.sha256(text.as_tsv(text.read_pairs(source)).encode()).hexdigest()


def shown(value: Any) -> str:
    """A value as a person would type it behind --set."""
    return "none" if value is None else str(value)
