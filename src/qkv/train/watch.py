"""Watching heads form: at every evaluation the attention of one probe sentence is kept, as a trace file."""

from __future__ import annotations

from pathlib import Path

import torch

from ..attention.attend import record
from ..model.transformer import Transformer
from ..text import Tokenizer
from ..tracing.file import save_calls


class Watch:
    """Keeps `watch/000100.safetensors`, … in the run's folder."""

    def __init__(self, run: Path, sentence: str, tokenizer: Tokenizer) -> None:
        self.run, self.sentence, self.tokenizer = run, sentence, tokenizer
        self.ids = tokenizer.encode(sentence, special=True)
        if not self.ids:
            raise ValueError("--watch needs a sentence with at least one token")

    @torch.no_grad()
    def record(self, model: Transformer, step: int) -> None:
        """Run the sentence through the model, listening."""
        model.eval()
        device = model.embedding.weight.device
        ids = torch.tensor([self.ids], device=device)
        tokens = {"tokens": self.tokenizer.pieces(self.ids)}
        with record() as calls:
            if model.config.kind == "encoder-decoder":
                from ..model.generate import translate_ids

                source = [*self.ids, *([] if self.tokenizer.eos is None else [self.tokenizer.eos])]
                said = translate_ids(model, self.tokenizer, [source])[0]
                calls.clear()
                start = [] if self.tokenizer.bos is None else [self.tokenizer.bos]
                model(torch.tensor([[*start, *said]], device=device), torch.tensor([source], device=device))
                tokens = {
                    "source": self.tokenizer.pieces(source),
                    "target": self.tokenizer.pieces([*start, *said]),
                }
            else:
                model(ids)
        model.train()
        where = self.run / "watch" / f"{step:06d}.safetensors"
        save_calls(where, calls, model=self.run.name, tokens=tokens, text=self.sentence, step=step)
