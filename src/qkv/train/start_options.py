"""What a run is started with: its task, its sources and what was asked for; options that would be ignored are refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .. import text
from ..i18n import Problem, _
from .settings import Changes, TaskName
from .training_data import Sources

USELESS = {
    "--text": _("--text is {value}, but {task} learns from sentence pairs: give --pairs TSV, or nothing for dates"),
    "--text of labels": _(
        "--text is {value}, but {task} learns from texts with labels: give --pairs TSV, text TAB label"
    ),
    "--pairs": _("--pairs is {value}, but {task} learns from a text: give --text instead"),
    "--tokenizer": _("--tokenizer is {value}, but dates are always cut into characters: leave it out, or give --pairs"),
    "--from": _(
        "--from is {value}, but dates are learned from nothing in minutes: give --pairs, sentences that the model is to learn"
    ),
    "--chat": _(
        "--chat is {value}, but chats are laid out by a model's own template: say which with  qkv train lm --from MODEL"
    ),
    "--chat and --text": _("--chat is {value}, and there is a --text too: leave one of them out"),
    "lora": _("--lora {value} learns beside weights that stay as they are: say which model's with --from"),
    "vocab": _("vocab is {value}, but a model has as many tokens as its tokenizer: leave it out"),
}
FIXED_BY_BASE = {  # beside --from
    "--preset": _("--preset is {value}, but --from says which model it is: leave one of them out"),
    "--tokenizer": _("--tokenizer is {value}, but a model that is gone on from keeps its own: leave it out"),
}


@dataclass(frozen=True)
class StartOptions:
    """The arguments of `start`; None where nothing was said. With a base, the model and its tokenizer are the base's."""

    task: TaskName
    sources: Sources
    base: str | None
    preset: str | None
    tokenizer: str | text.Tokenizer
    changes: Changes
    watch: str | None

    def check(self) -> None:
        """Refuse a task without what it needs, and options that would be ignored."""
        task, sources = self.task, self.sources
        if task == "classify" and (self.base is None or sources.pairs is None):
            raise Problem(
                "classify teaches an encoder labels: say which one and from what, as in  qkv train classify --pairs reviews.tsv "
                "--from minilm"
            )
        tokenizer = None if self.tokenizer == "auto" else self.tokenizer
        lora = self.changes.get("lora")
        for sentence, value, is_useful in (
            (USELESS["--text" if task == "translate" else "--text of labels"], sources.text, task in ("lm", "mlm")),
            (USELESS["--pairs"], sources.pairs, task not in ("lm", "mlm")),
            (USELESS["--from"], self.base, task != "translate" or sources.pairs is not None),
            (USELESS["--tokenizer"], tokenizer, task != "translate" or sources.pairs is not None),
            (USELESS["vocab"], self.changes.get("vocab"), False),
            (USELESS["--chat"], sources.chat, task == "lm" and self.base is not None),
            (USELESS["--chat and --text"], sources.chat, sources.text is None),
            (USELESS["lora"], lora, self.base is not None),
            (FIXED_BY_BASE["--preset"], self.preset, self.base is None),
            (FIXED_BY_BASE["--tokenizer"], tokenizer, self.base is None),
        ):
            if value is not None and not is_useful:
                raise Problem(sentence, value=value, task=task)

    def run_name(self) -> str:
        """Return TASK-NAME, NAME being that of the data; -MODEL follows with a base, and -lora with an adapter."""
        data = "dates" if self.task == "translate" and self.sources.pairs is None else self.sources.name
        base = [] if self.base is None else [Path(self.base).stem]
        return "-".join([self.task, data, *base, *(["lora"] if self.changes.get("lora") else [])])
