"""The model protocol (model_protocol.py) for models of Hugging Face's `transformers`; hf_trace.py makes their traces."""

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
    """Adapter for a transformers model; wrappers of torch.compile and peft are removed."""

    has_static_layers = False

    def __init__(self, model: object) -> None:
        self.model = hf_attention.unwrap_model(model)

    @property
    def kind(self) -> str:
        """The kind that the config names, else that of the first attention."""
        if self.model.config.is_encoder_decoder:
            return "encoder-decoder"
        bare = "decoder" if self.model.can_generate() else "encoder"  # no attention at all
        return next(iter(hf_attention.stacks(self.model)), bare)

    @property
    def context(self) -> int | None:
        """The context length of the config."""
        return hf_attention.context_of(self.model)

    def heads(self) -> dict[str, dict[int, int]]:
        """Return the heads of each layer; refuse a model whose heads can't be edited one by one."""
        return hf_attention.heads_of(self.model)

    def trace(self, request: TraceRequest) -> Trace:
        """Trace the model; `request.source` may also be the model's keyword arguments."""
        return hf_trace.trace(self.model, request)

    def prepare(self, source: TextInput, tokenizer: AnyTokenizer, target: TextInput | None = None) -> PreparedText:
        """Prepare texts, padded as the tokenizer does."""
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
        """Translate greedily with the library's `generate`."""
        inputs = inputs_of(self.model, text, tokenizer)
        return reader_of(tokenizer).text(generate_ids(self.model, inputs, tokenizer, use_cache=cache)[0][1:])

    @contextmanager
    def editing(self, layers: Iterable[Layer]) -> Iterator[Mapping[Layer, str]]:
        """Observe the model inside the block. The names contain the model's id: other models aren't edited."""
        names = {(part, layer): f"{part}.{layer} of {id(self.model)}" for part, layer in layers}
        with hf_attention.editing(self.model, names):
            yield names
