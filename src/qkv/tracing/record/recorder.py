"""`qkv.trace`: run a model on a text once, listening, and keep what every attention received.

The model runs with its fast kernels as always; listening costs references, not copies. Models of ours and of Hugging
Face's `transformers` give the same `Trace`.
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
    """What every attention of a model receives on a text, on token ids, or on a batch of either.

    An encoder-decoder reads `given` and says `target`; where that isn't given, it is what the model itself says
    (greedily). `logits` keeps the model's logits in `trace.more["logits"]`. `eager` is for models of `transformers` that
    can't be listened to: the weights they give themselves are kept whole, n² of them, without q, k and v.

    `inputs` is for models of `transformers` that take more than text: a dict of what the model is called with
    (`pixel_values`, `input_ids`, `decoder_input_ids`, …), as its processor makes it. The patches of a picture are tokens
    too, named by row and column. Of a model with two towers (CLIP), give what the tower reads.

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
