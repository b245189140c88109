"""Importance of heads: the change of the loss when a single head is edited.

importance(model, texts, tokenizer)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...disk.atomic_files import write_file
from ...i18n import Problem
from ..record.model_protocol import TextInput, model_of, uneven
from ..record.tokenizer_protocol import AnyTokenizer
from ..views.head_ranking import strongest
from .edits import edit
from .effects import mask_of


class Importance(NamedTuple):
    """A head and the rise of the loss (in nats per token) when it is edited; if negative, the model does better."""

    part: str
    layer: int
    head: int
    change: float


FORMAT = "qkv importance 1"
LossTask = tuple[Callable[[Tensor], Tensor], Tensor, Tensor]  # function from ids to logits, ids, labels


def importance(
    model: object,
    texts: Any,
    tokenizer: Any = None,
    *,
    target: Sequence[Any] | None = None,
    to: str = "zero",
    progress: Callable[[int, int], object] | None = None,
    resume: str | Path | None = None,
) -> list[Importance]:
    """Return every head with the change of the loss when it alone is edited, the most important first.

    `texts` is a text or token ids, or a list of such; an entry that is itself a list of texts or of id lists is a batch. The
    loss is that of the next token; for an encoder-decoder, of `target`, one per text, by default its own output; for an
    encoder, of every seventh token, replaced by [MASK].

    `progress(done, total)` is called after each head. `resume` names a file (JSON lines) to record them in: a second call
    with the same model and texts skips the heads in it.
    """
    batches = _batches(texts)
    if target is not None and len(target) != len(batches):
        raise uneven(len(batches), len(target))
    tasks = [
        _loss_task(model, batch, tokenizer, None if target is None else target[i]) for i, batch in enumerate(batches)
    ]
    base = _loss(tasks)
    head_counts = model_of(model).heads()
    all_heads = [
        (part, layer, head) for part, layers in head_counts.items() for layer, n in layers.items() for head in range(n)
    ]
    digest = hashlib.sha256()
    for _, ids, labels in tasks:
        digest.update(json.dumps([ids.tolist(), labels.tolist()]).encode())
    layout = {
        part: [*layers.values()] if [*layers] == [*range(len(layers))] else [[*pair] for pair in layers.items()]
        for part, layers in head_counts.items()
    }
    header = {"format": FORMAT, "heads": layout, "to": to, "texts": digest.hexdigest(), "loss": base}
    path = None if resume is None else Path(resume)
    done = {} if path is None else _load_record(path, header)
    for part, layer, head in all_heads:
        if (part, layer, head) not in done:
            with edit(model, f"{part}.{layer}.{head}", to):
                change = _loss(tasks) - base
            done[part, layer, head] = change
            if path is not None:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(Importance(part, layer, head, change)._asdict()) + "\n")
        if progress is not None:
            progress(len(done), len(all_heads))
    return strongest((Importance(*key, done[key]) for key in all_heads), lambda row: row.change)


def _batches(texts: Any) -> list[Any]:
    if isinstance(texts, Tensor):
        texts = texts.tolist()
    if isinstance(texts, str) or (len(texts) and isinstance(texts[0], int)):
        return [texts]
    if not len(texts):
        raise Problem('the text is empty: give at least one word, as in  qkv steps "我 爱 北京"')
    return list(texts)


def _loss_task(model: object, source: TextInput, tokenizer: AnyTokenizer, target: Any) -> LossTask:
    """Return (run, ids, labels); labels are −100 where there is no loss."""
    adapter = model_of(model)
    run, ids, is_real = adapter.prepare(source, tokenizer, target)
    labels = torch.full_like(ids, -100)
    if adapter.kind == "encoder":
        hidden = torch.zeros_like(is_real)
        hidden[:, 3::7] = True
        hidden &= is_real
        labels[hidden] = ids[hidden]
        ids = ids.masked_fill(hidden, mask_of(tokenizer))
    else:
        labels[:, :-1] = ids[:, 1:].masked_fill(~(is_real[:, 1:] & is_real[:, :-1]), -100)
    return run, ids, labels


def _loss(tasks: list[LossTask]) -> float:
    """Return the loss in nats per token over all texts."""
    total, count = 0.0, 0
    for run, ids, labels in tasks:
        total += float(F.cross_entropy(run(ids).flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"))
        count += int((labels != -100).sum())
    if not count:
        raise Problem("these texts leave nothing to predict: give texts of two tokens or more (an encoder: four)")
    return total / count


def _load_record(path: Path, header: dict[str, Any]) -> dict[tuple[str, int, int], float]:
    """Read the record of an earlier call and write it again without a truncated line."""
    done: dict[tuple[str, int, int], float] = {}
    if path.exists() and path.stat().st_size:
        try:
            first, *lines = path.read_text(encoding="utf-8").splitlines()
            stored = json.loads(first)
            matches = all(stored[key] == header[key] for key in ("format", "heads", "to", "texts"))
            matches = matches and abs(stored["loss"] - header["loss"]) <= 1e-4 * max(abs(header["loss"]), 1e-2)
        except (ValueError, KeyError, TypeError) as error:
            raise Problem("{file} is not a record of head importance: choose another file", file=path) from error
        if not matches:
            raise Problem(
                "{file} was made with another model, other texts or another edit: choose another file, or remove it",
                file=path,
            )
        for line in lines:
            try:
                row = json.loads(line)
                done[row["part"], row["layer"], row["head"]] = float(row["change"])
            except (ValueError, KeyError, TypeError):
                continue
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [Importance(*head, change)._asdict() for head, change in done.items()]
    write_file(path, "".join(json.dumps(row) + "\n" for row in [header, *rows]))
    return done
