"""`qkv.trace`: run a model on a text once and record q, k, v and the mask of every attention.

The model uses its fast kernels, and recording keeps references, not copies. Native models and those of Hugging Face's
`transformers` give the same `Trace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...i18n import Problem
from ..views.traces import Trace
from .model_protocol import TextInput, TraceRequest, model_of


def trace(
    model: Any,
    given: TextInput | None = None,
    tokenizer: Any = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    target: TextInput | None = None,
    logits: bool = False,
    name: str = "",
    eager: bool = False,
) -> Trace:
    """Trace a model on a text, on token ids, or on a batch of either.

    An encoder-decoder reads `given`; its decoder reads `target`, by default the model's own greedy output. `logits` keeps
    the logits in `trace.more["logits"]`. `eager` is for `transformers` models that bypass the library's kernel registry: it
    records the n² weights that the model returns, without q, k and v.

    `inputs` is for `transformers` models that take more than text: a dict of the model's arguments (`pixel_values`,
    `input_ids`, `decoder_input_ids`, …), as its processor makes it. The patches of an image are tokens too, labelled by row
    and column. For a model with two towers (CLIP), pass the inputs of one.

    >>> import torch
    >>> from ...model.config import Config
    >>> from ...model.transformer import Transformer
    >>> _ = torch.manual_seed(0)
    >>> recorded = trace(Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)), [3, 1, 4, 1, 5])
    >>> recorded.map(1, 3).shape, round(float(recorded.map(1, 3).sum()), 5)
    ((5, 5), 5.0)
    """
    if (given is None) == (inputs is None):
        raise Problem(
            "give trace() a text, or inputs= with what a model of transformers is called with: one of the two"
        )
    if inputs is not None and not isinstance(inputs, Mapping):
        raise Problem(
            "inputs is a {type}: give a dict of what the model is called with, such as {example}; token ids "
            "alone are the second argument, as in  trace(model, ids)",
            type=type(inputs).__name__,
            example='{"input_ids": ids}',
        )
    return model_of(model).trace(
        TraceRequest(dict(inputs or {}) if given is None else given, tokenizer, target, logits, name, eager)
    )
