"""Models of Hugging Face's `transformers`, as looking asks for them (models.py); huggingface.py makes their traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from ...generation.prefill import wordless
from ..views.traces import Trace
from . import hf_attention, hf_trace
from .hf_inputs import check, eval_mode, generate_ids, inputs_of, is_seq2seq, target_of
from .model_protocol import Layer, PreparedText, TextInput, TraceRequest
from .tokenizer_protocol import AnyTokenizer, reader_of


class HFModel:
    """A model of transformers that is looked into, out of what may be wrapped around it."""

    has_static_layers = False

    def __init__(self, model: object) -> None:
        self.model = hf_attention.unwrap_model(model)

    @property
    def kind(self) -> str:
        """As its config says, else by where its attention stands."""
        if self.model.config.is_encoder_decoder:
            return "encoder-decoder"
        bare = "decoder" if self.model.can_generate() else "encoder"  # nothing in it attends
        return next(iter(hf_attention.stacks(self.model)), bare)

    @property
    def context(self) -> int | None:
        """As its config says."""
        return hf_attention.context_of(self.model)

    def heads(self) -> dict[str, dict[int, int]]:
        """Refuses a model whose heads can't be edited one by one."""
        return hf_attention.heads_of(self.model)

    def trace(self, request: TraceRequest) -> Trace:
        """`request.given` may be whatever the model is called with."""
        return hf_trace.trace(self.model, request)

    def prepare(self, source: TextInput, tokenizer: AnyTokenizer, target: TextInput | None = None) -> PreparedText:
        """Padded as its tokenizer does."""
        inputs = inputs_of(self.model, source, tokenizer)
        check(self.model, inputs)
        side = ""
        if is_seq2seq(self.model):
            inputs |= target_of(self.model, inputs, tokenizer, target)
            side = "decoder_"
        ids, real = inputs[f"{side}input_ids"], inputs.get(f"{side}attention_mask")

        def run(ids: Tensor) -> Tensor:
            with eval_mode(self.model):
                logits = getattr(self.model(**inputs | {f"{side}input_ids": ids}), "logits", None)
            vocab = self.model.config.get_text_config().vocab_size
            if logits is None or logits.ndim != 3 or logits.shape[-1] < vocab:
                raise wordless(self.model)
            return logits.float()

        return PreparedText(run, ids, torch.ones_like(ids) > 0 if real is None else real > 0)

    def translate(self, text: str, tokenizer: AnyTokenizer, *, cache: bool = True) -> str:
        """As the library's own `generate` says it."""
        inputs = inputs_of(self.model, text, tokenizer)
        return reader_of(tokenizer).text(generate_ids(self.model, inputs, tokenizer, use_cache=cache)[0][1:])

    @contextmanager
    def editing(self, layers: Iterable[Layer]) -> Iterator[Mapping[Layer, str]]:
        """Theirs are listened to inside the block, and known by who they are: another model's heads stay as they are."""
        names = {(part, layer): f"{part}.{layer} of {id(self.model)}" for part, layer in layers}
        with hf_attention.editing(self.model, names):
            yield names
