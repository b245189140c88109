"""Going on from weights that were learned already: which model that is, and settings that suit real weights and few data.

A model that was taught for months is moved gently: a small learning rate, a few passes over the text, and an end as soon as
a part of the text that it doesn't learn from is no longer said better. Its tokenizer is kept: other tokens would mean nothing
to it. Everything chosen here gives way to what is asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .. import text
from ..disk.atomic_files import write_file
from ..formats.hf_export import HABITS
from ..formats.model_files import load
from ..formats.tensor_files import fingerprint
from ..i18n import Problem, all_of
from ..model.config import Config
from ..model.transformer import Transformer
from .resume_options import Reason, lies, shown
from .settings import TUNED, Settings, known

ROWS = (256, 128, 64, 32)  # tokens that a text is learned in, the longest first
SHORTEST_RUN = 20  # steps: fewer would hardly move anything
PASSES, LOOKS, PATIENCE = 3, 10, 3  # over the data; evaluations of a run, and how many may bring nothing
RATES = {"lm": 5e-5, "mlm": 5e-5, "translate": 3e-5, "classify": 1e-4}
LOW_RANK = 10  # times the rate, where thin matrices learn that begin at nothing
BATCHES = {"lm": 8, "mlm": 16, "translate": 16, "classify": 16}


@dataclass(frozen=True)
class Base:
    """A model to go on from; `place` finds it again."""

    place: str
    model: Transformer
    tokenizer: text.Tokenizer

    def record(self) -> dict[str, str]:
        """What a run's config.json says of it."""
        return {"place": self.place, "sha256": fingerprint(self.model)}


def open_base(name: str, task: str) -> Base:
    """The model that a name, a folder, a .gguf file or a run means, if it can learn this task."""
    model, tokenizer = load(name)
    if tokenizer is None:
        text.load(name)  # says what is missing
        raise AssertionError
    kind, needed = model.config.kind, TUNED[task]
    if kind != needed:
        raise Problem(
            "{model} is a model of kind {kind}: {verb} needs one of kind {needed}",
            model=name,
            kind=kind,
            verb=f"qkv train {task}",
            needed=needed,
        )
    if task != "classify" and not model.config.says_words:
        raise Problem("{model} has no head that says words, so it can't learn {task}", model=name, task=task)
    return Base(lies(name), model, tokenizer)


def classifier(config: Config, labels: list[str]) -> Config:
    """The config of an encoder that is to tell these labels apart."""
    return config.replace(head="classes", labels=tuple(labels), pooler=True)


def keep_tokenizer(tokenizer: text.Tokenizer, folder: Path) -> None:
    """Write a tokenizer, and how its model is meant to write."""
    tokenizer.save(folder)
    if told := tokenizer.habits.told():
        told |= {"eos_token_id": tokenizer.ends} if tokenizer.ends else {}
        write_file(folder / HABITS, json.dumps(told, indent=2) + "\n")


def meant(changes: dict[str, Any]) -> dict[str, Any]:
    """What is asked for, of a run that goes on from a model: `context` is how long its rows are, the model stays as it is."""
    known(changes)
    changes = {"row" if name == "context" else name: value for name, value in changes.items()}
    of_run = {field.name for field in fields(Settings)} | {"dropout"}
    if fixed := [name for name in changes if name not in of_run]:
        raise Problem(
            "{names} would make another model than the one to go on from: leave that out, or leave --from out and train a "
            "model from the beginning",
            names=all_of(fixed),
        )
    return changes


def row_length(config: Config, tokens: text.Dataset) -> int:
    """Tokens of a row: as many as are usual, fewer where the text kept for validation isn't that long."""
    fits = [row for row in ROWS if row <= config.context]
    return next((row for row in fits if row < len(tokens.validation)), min(ROWS[-1], config.context))


def gentle(task: str, rows: int, held: int, asked: dict[str, Any], processes: int = 1) -> Settings:
    """Settings for so many rows to learn from and `held` to test with; what is asked for goes before them.

    >>> s = gentle("lm", rows=400, held=40, asked={})
    >>> s.steps, s.batch, s.lr, s.eval_every, s.eval_batches, s.patience
    (150, 8, 5e-05, 15, 5, 3)
    """
    wanted = Settings(**{"batch": BATCHES[task], **asked})  # refuses what can't be
    batch = wanted.batch
    low = LOW_RANK if wanted.lora is not None else 1
    if "batch" not in asked and rows < batch:
        batch = max(rows // processes, 1) * processes
    steps = wanted.steps if "steps" in asked else max(-(-PASSES * rows // batch), SHORTEST_RUN)
    usual: dict[str, Any] = dict(
        steps=steps,
        batch=batch,
        optimizer="adamw",
        lr=low * RATES[task],
        weight_decay=0.01,
        warmup=max(steps // 10, 1),
        decay=1.0,
        eval_every=max(steps // LOOKS, 1),
        eval_batches=min(-(-held // batch), 20),
        patience=PATIENCE,
    )
    return Settings(**usual | asked)


def reason(settings: Settings, rows: int, asked: dict[str, Any]) -> Reason:
    """What was chosen and why, in a line."""
    numbers = dict(lr=settings.lr, steps=settings.steps, batch=settings.batch, patience=shown(settings.patience))
    if asked.keys() & {"lr", "steps", "batch", "patience", "optimizer"}:
        return "why.own", numbers
    return "why.gentle", {**numbers, "passes": PASSES, "rows": rows, "least": SHORTEST_RUN}
