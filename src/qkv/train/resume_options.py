"""The options of a resumed run: more steps, and options that equal what the run has. All others are refused.

Batches and weights follow from the first settings, so most settings can't change later. More steps can: from the step
where the run resumes, the learning rate follows the schedule for the new number. Earlier steps are unchanged. The run
stores both schedules, so that it can be stopped and resumed like any other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import text
from ..i18n import Problem
from ..model.config import Config
from ..text.conversations import as_jsonl, read_chats
from .reasons import Reason, setting_text
from .run_record import DataKind, RunRecord
from .settings import Changes, canonical_names, preset, read_settings

CHANGEABLE = ("steps", "eval_every", "checkpoint_every", "patience")  # settings that change no completed step


@dataclass(frozen=True)
class ResumeOptions:
    """The options beside `--resume`, None where absent. `source` and `pairs` are paths."""

    task: str | None = None
    out: Path | None = None
    source: str | None = None
    pairs: str | None = None
    chat: str | None = None
    base: str | None = None
    preset: str | None = None
    tokenizer: str | None = None
    watch: str | None = None
    changes: Changes = field(default_factory=dict)


def check_resume(options: ResumeOptions, folder: Path, record: RunRecord) -> None:
    """Refuse options that differ from the run's own and can't change."""

    def cannot_change(name: str, has: object, requested: object) -> Problem:
        return Problem(
            "{name} is {has} in {folder} and can't become {asked} while the run goes on: leave it out, or begin a "
            "new run. What can change: --steps, --eval-every, --checkpoint-every",
            folder=folder,
            name=name,
            has=setting_text(has),
            asked=setting_text(requested),
        )

    changes = canonical_names(options.changes)
    if options.task not in (None, record["task"]):
        raise cannot_change("task", record["task"], options.task)
    if options.out is not None and options.out.resolve() != folder.resolve():
        raise cannot_change("--out", folder, options.out)
    for option, source, kinds in (
        ("--text", options.source, ("text",)),
        ("--pairs", options.pairs, ("pairs", "labels")),
        ("--chat", options.chat, ("chats",)),
    ):
        if source is not None:
            if record["data"]["kind"] not in kinds:
                raise cannot_change(option, None, source)
            if _sha256(record["data"]["kind"], source) != record["data"]["sha256"]:
                raise Problem(
                    "{source} is not the text that {folder} was begun with (its content changed): a run goes on with its "
                    "own data; leave {option} out, or begin a new run",
                    option=option,
                    source=source,
                    folder=folder,
                )
    if options.base is not None and (record["base"] is None or resolve_base(options.base) != record["base"]["place"]):
        raise cannot_change("--from", None if record["base"] is None else record["base"]["place"], options.base)
    if options.watch not in (None, record["watch"]):
        raise cannot_change("--watch", record["watch"], options.watch)
    if options.tokenizer not in (None, "auto", kind := text.load(folder).kind):
        raise cannot_change("--tokenizer", kind, options.tokenizer)
    has = settings_by_name(record)
    if options.preset is not None and not _same_preset(options.preset, record, has):
        raise cannot_change("--preset", record["preset"], options.preset)
    for name, value in changes.items():
        if name not in CHANGEABLE and not _equal(has.get(name), value):
            raise cannot_change(name, has.get(name), value)


def settings_by_name(record: RunRecord) -> Changes:
    """Return every setting of a run by name, of the model and of the training, as JSON has them."""
    every = Config.from_dict(record["model"]).to_dict() | read_settings(record["train"]).to_dict()
    every |= {f"experts.{name}": value for name, value in (every["experts"] or {}).items()}
    return json.loads(json.dumps(every))  # tuples become lists


def new_settings(options: ResumeOptions, record: RunRecord) -> Changes:
    """Return the changeable settings with new values."""
    has = settings_by_name(record)
    return {k: v for k, v in options.changes.items() if k in CHANGEABLE and not _equal(has[k], v)}


def extend(folder: Path, record: RunRecord, changes: Changes, done: int) -> RunRecord:
    """Return the run's record with these changes from step `done` on, and a reason for each."""
    was = read_settings(record["train"])
    why: list[Reason] = list(record["why"])
    if "steps" in changes:
        now = replace(was, steps=changes["steps"])  # refuses an invalid number of steps
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
        why.append(("why.now", {"name": name, "was": getattr(was, name), "now": setting_text(changes[name])}))
    return {**record, "train": replace(was, **changes).to_dict(), "why": why}


def resolve_base(name: str) -> str:
    """Return the absolute path of a base model that is a folder or a file, else its name."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _same_preset(name: str, record: RunRecord, has: Changes) -> bool:
    """True if a run has this preset: by name if it is stored, else (older runs) by its settings."""
    if record["base"] is not None:
        return False
    config, settings = preset(name, record["task"])
    if record["preset"] is not None:
        return record["preset"] == name
    expected = json.loads(json.dumps(config.to_dict() | settings.to_dict()))
    return all(_equal(has[key], expected[key]) for key in expected if key not in ("vocab", *CHANGEABLE))


def _equal(has: object, requested: object) -> bool:
    return has == requested and isinstance(has, bool) == isinstance(requested, bool)


def _sha256(kind: DataKind, source: str) -> str:
    if kind == "text":
        return text.Corpus.of(source).sha256()
    if kind == "chats":
        return hashlib.sha256(as_jsonl(read_chats(source)).encode()).hexdigest()
    return hashlib.sha256(text.as_tsv(text.read_pairs(source)).encode()).hexdigest()
