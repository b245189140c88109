"""Reasons for what a run chose, and their sentences.

A run's config.json stores the key of a reason and the values of its sentence, which can be shown in any language.
"""

from __future__ import annotations

from typing import Any

from ..disk.bounded_reading import MALFORMED
from ..i18n import _, say

Reason = tuple[str, dict[str, Any]]

REASONS = {
    "why.dates": _("data: no --pairs were given, so it learns to write dates of many forms as ISO dates"),
    "why.asked": _("tokenizer: {kind}, as asked, {vocab} tokens"),
    "why.characters": _("tokenizer: characters, {vocab} tokens: the text is too short to learn whole words from"),
    "why.many": _(
        "tokenizer: characters, {vocab} tokens: the text is too short to learn whole words from, and as bytes most "
        "characters would take three tokens each"
    ),
    "why.bytes": _("tokenizer: bytes: there are so many different characters that most are rare"),
    "why.bpe": _("tokenizer: bpe with {vocab} pieces: the text is long enough to learn words from"),
    "why.cpu": _("device: CPU, threads: {threads}; no GPU was found"),
    "why.thread": _(
        "device: CPU with one of {threads} threads: the model is too small for several threads to be faster (OMP_NUM_THREADS sets another number); no GPU was found"
    ),
    "why.gpu": _("device: {name}"),
    "why.float32": _("dtype: float32"),
    "why.float64": _("dtype: float64, as asked"),
    "why.bfloat16": _("dtype: bfloat16 for matrix products, as asked"),
    "why.eager": _("not compiled: that takes half a minute before the first step; --set compile=true asks for it"),
    "why.compiled": _("compiled, as asked: the first step takes half a minute"),
    "why.processes": _("{n} processes share each batch ({kind})"),
    "why.world": _(
        "saved by {was}, resumed with {now}: batches are the same, but sums are rounded in another order and dropout differs, so results are equal up to rounding, not bit for bit"
    ),
    "why.yields": _("{name}: {has}; the preset's {was} gives way to what was asked for"),
    "why.steps": _("steps: {now} instead of {was}; from step {done} on the learning rate follows the plan for {now}"),
    "why.base": _(
        "from: {base}, {parameters} weights, all of which are trained; its tokenizer is kept, {vocab} tokens"
    ),
    "why.lora": _(
        "from: {base}, whose {parameters} weights stay as they are; only matrices of rank {rank} beside its projections are trained (LoRA); its tokenizer is kept, {vocab} tokens"
    ),
    "why.gentle": _(
        "fine-tuning on few data: learning rate {lr}, {passes} passes over {rows} rows are {steps} steps of {batch} (at least {least}); it stops early after {patience} evaluations without progress"
    ),
    "why.own": _(
        "learning rate {lr}, {steps} steps of {batch} rows; it stops early after {patience} evaluations without progress"
    ),
    "why.labels": _("{n} labels: {labels}; their head is new"),
    "why.chats": _(
        "{n} rows of chat, of which only the assistant's answers are learned; {cut} are longer than {row} tokens and are cut there"
    ),
    "why.cut": _("{n} of {all} texts are longer than {row} tokens and are cut there; --context N takes more"),
    "why.unknown": _(
        "{share} of the tokens of these texts are unknown to its tokenizer, and texts that differ only there look the same to the model: choose a model that was trained on their language"
    ),
    "why.row": _("rows of {row} tokens: the model could read {context}, but few data and short steps go further"),
    "why.now": _("{name}: {now} from here on, {was} before"),
    "why.damaged": _("passed over a damaged checkpoint: {problem}"),
}


def is_sayable(reasons: object) -> bool:
    """True if these are reasons from the table, with all values of their sentences."""
    try:
        return isinstance(reasons, list) and all(bool(say(REASONS[key], **values)) for key, values in reasons)
    except MALFORMED:
        return False


def setting_text(value: object) -> str:
    """Return a value as it is typed after --set."""
    return "none" if value is None else str(value)
