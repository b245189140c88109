"""Record the attention of a probe sentence at every evaluation, as trace files that show how heads form."""

from __future__ import annotations

from pathlib import Path

from ..disk.run_folder import WATCH
from ..i18n import Problem
from ..model.transformer import Transformer
from ..text import Tokenizer
from ..tracing.record.recorder import trace


class Watch:
    """Writes `watch/000100.safetensors`, … in the run's folder. `context` is the number of learned positions, if any."""

    def __init__(self, run: Path, sentence: str, tokenizer: Tokenizer, context: int | None = None) -> None:
        self.run, self.sentence, self.tokenizer = run, sentence, tokenizer
        self.ids = tokenizer.encode(sentence, special=True)
        if not self.ids:
            raise Problem("--watch needs a sentence with at least one token")
        if context is not None and len(self.ids) > context:
            raise Problem(
                "the sentence of --watch has {n} tokens but this model learns {context} positions: shorten it, or set "
                "--context",
                n=len(self.ids),
                context=context,
            )

    def record(self, model: Transformer, step: int) -> None:
        """Trace the sentence through the model."""
        recorded = trace(model, self.sentence, self.tokenizer, name=self.run.name)
        recorded.more["step"] = step
        recorded.save(self.run / WATCH / f"{step:06d}.safetensors", half=True)
