"""Fine-tuning: open a base model, and choose settings that suit learned weights and few data.

A pretrained model is changed gently: a low learning rate, a few passes over the text, and early stopping when the
validation loss no longer falls. Its tokenizer is kept. Explicit settings override everything chosen here.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from .. import text
from ..formats.model_files import load
from ..formats.tensor_files import fingerprint
from ..i18n import Problem, all_of
from ..model.config import Config
from ..model.transformer import Transformer
from .machine import check_machine
from .parallelize import World
from .reasons import Reason, setting_text
from .resume_options import resolve_base
from .run_record import BaseRecord, DataRecord
from .settings import FINE_TUNED, Changes, Settings, TaskName, canonical_names
from .training_data import Progress, count_rows, prepare_data

if TYPE_CHECKING:
    from .run import StartOptions

SHORTEST_RUN = 20  # steps
PASSES, EVALUATIONS, PATIENCE = (
    3,
    10,
    3,
)  # passes over the data; evaluations per run, and how many in a row without progress end it
RATES: dict[TaskName, float] = {"lm": 5e-5, "mlm": 5e-5, "translate": 3e-5, "classify": 1e-4}
LORA_RATE = 10  # × the rate for LoRA, whose matrices start at 0
BATCHES: dict[TaskName, int] = {"lm": 8, "mlm": 16, "translate": 16, "classify": 16}


def open_base(name: str, task: TaskName) -> tuple[Transformer, text.Tokenizer]:
    """Open the model of a name, a folder, a .gguf file or a run. Refuse one that can't learn this task."""
    model, tokenizer = load(name)
    if tokenizer is None:
        text.load(name)  # raises an error that names what is missing
        raise AssertionError
    kind, needed = model.config.kind, FINE_TUNED[task]
    if kind != needed:
        raise Problem(
            "{model} is a model of kind {kind}: {verb} needs one of kind {needed}",
            model=name,
            kind=kind,
            verb=f"qkv train {task}",
            needed=needed,
        )
    if task != "classify" and not model.config.predicts_words:
        raise Problem("{model} has no head that says words, so it can't learn {task}", model=name, task=task)
    return model, tokenizer


def prepare_fine_tuning(
    folder: Path, options: StartOptions, world: World, progress: Progress | None, why: list[Reason]
) -> tuple[Config, Settings, DataRecord, BaseRecord]:
    """Write the data and the base's tokenizer into the folder, choose settings, and append the reasons to `why`."""
    assert options.base is not None
    changes = run_changes(options.changes)
    model, tokenizer = open_base(options.base, options.task)
    config = model.config.replace(**{k: changes.pop(k) for k in ("dropout",) if k in changes})
    Settings(**changes)  # refuse wrong settings before the text is read
    numbers = {"base": options.base, "parameters": f"{model.count():,}", "vocab": config.vocab}
    rank = changes.get("lora")
    why.append(("why.base", numbers) if rank is None else ("why.lora", {**numbers, "rank": rank}))
    data = prepare_data(options.task, folder, options.sources, tokenizer, progress, why)
    if data["kind"] == "labels":
        config = config.replace(head="classes", labels=tuple(data["labels"]), pooler=True)
        why.append(
            ("why.labels", {"n": len(config.output.labels), "labels": all_of(config.output.labels[:10]).say("en")})
        )
    rows, validation_rows, row = count_rows(data["kind"], folder, config, changes.get("row"))
    if data["kind"] == "text" and row is not None and row < config.context:
        why.append(("why.row", {"row": row, "context": config.context}))
    settings = gentle_settings(options.task, rows, validation_rows, {"row": row, **changes}, world.size)
    why.append(settings_reason(settings, rows, changes))
    world.check(settings)
    check_machine(settings)
    base: BaseRecord = {"place": resolve_base(options.base), "sha256": fingerprint(model)}
    return config, settings, data, base


def run_changes(changes: Changes) -> Changes:
    """Return changes for a fine-tuning run: `context` is its row length, and changes of the model are refused."""
    changes = {"row" if name == "context" else name: value for name, value in canonical_names(changes).items()}
    of_run = {field.name for field in fields(Settings)} | {"dropout"}
    if fixed := [name for name in changes if name not in of_run]:
        raise Problem(
            "{names} would make another model than the one to go on from: leave that out, or leave --from out and train a "
            "model from the beginning",
            names=all_of(fixed),
        )
    return changes


def gentle_settings(task: TaskName, rows: int, validation_rows: int, changes: Changes, processes: int = 1) -> Settings:
    """Return settings for this number of training and validation rows. `changes` override them.

    >>> s = gentle_settings("lm", rows=400, validation_rows=40, changes={})
    >>> s.steps, s.batch, s.lr, s.eval_every, s.eval_batches, s.patience
    (150, 8, 5e-05, 15, 5, 3)
    """
    requested = Settings(**{"batch": BATCHES[task], **changes})  # refuses wrong values
    batch = requested.batch
    factor = LORA_RATE if requested.lora is not None else 1
    if "batch" not in changes and rows < batch:
        batch = max(rows // processes, 1) * processes
    steps = requested.steps if "steps" in changes else max(-(-PASSES * rows // batch), SHORTEST_RUN)
    defaults: Changes = dict(
        steps=steps,
        batch=batch,
        optimizer="adamw",
        lr=factor * RATES[task],
        weight_decay=0.01,
        warmup=max(steps // 10, 1),
        decay=1.0,
        eval_every=max(steps // EVALUATIONS, 1),
        eval_batches=min(-(-validation_rows // batch), 20),
        patience=PATIENCE,
    )
    return Settings(**defaults | changes)


def settings_reason(settings: Settings, rows: int, changes: Changes) -> Reason:
    """Return the reason for the settings, with their numbers."""
    numbers = dict(lr=settings.lr, steps=settings.steps, batch=settings.batch, patience=setting_text(settings.patience))
    if changes.keys() & {"lr", "steps", "batch", "patience", "optimizer"}:
        return "why.own", numbers
    return "why.gentle", {**numbers, "passes": PASSES, "rows": rows, "least": SHORTEST_RUN}
