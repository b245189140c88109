"""Streaming traces: call `on_start` with the tokens before the forward pass and `on_layer` after each layer.

    stream_trace(model, text, tokenizer, on_layer=show)      show(part, layer, call) after each layer, not after the last

The next layer waits for `on_layer`, so the first layers can be shown early, and `stop` can end the pass between two layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...attention.formula import Call
from ...generation.prefill import wordless
from ...mixers.calls import Mixing
from ...model.thin_matmul import logits_of
from ..views.token_labels import Tokens
from ..views.traces import Trace
from .model_protocol import TextInput, TraceRequest, model_of

if TYPE_CHECKING:
    from ...model.transformer import Transformer

Heads = Mapping[str, Mapping[int, int]]  # part → its layers' numbers in the model → how many heads each has
Sides = dict[str, list[Tokens]]  # part → the tokens of the queries, or of the keys, per item


class StreamStopped(Exception):
    """The listener's `stop` returned True."""


def _ignore(*args: object) -> None:
    pass


@dataclass(frozen=True)
class TraceListener:
    """The callbacks and further arguments of `stream_trace`."""

    on_start: Callable[[Heads, Sides, Sides], None] = _ignore
    on_layer: Callable[[str, int, Call | Mixing], None] = _ignore
    stop: Callable[[], bool] = lambda: False
    continuation: tuple[int, ...] = ()
    residuals: int | None = None

    def notify(self, part: str, layer: int, call: Call | Mixing) -> None:
        """Report a layer, then raise `StreamStopped` if `stop` returns True."""
        self.on_layer(part, layer, call)
        self.check_stop()

    def check_stop(self) -> None:
        """Raise `StreamStopped` if `stop` returns True.

        >>> TraceListener(stop=lambda: True).check_stop()
        Traceback (most recent call last):
        qkv.tracing.record.streaming.StreamStopped
        """
        if self.stop():
            raise StreamStopped

    def notify_all(self, trace: Trace) -> None:
        """Report a finished trace, whose layers were unknown before the forward pass."""
        calls = {part: dict(zip(trace.layers(part), trace.calls[part], strict=True)) for part in trace.parts}
        heads = {part: {layer: call.n_head for layer, call in layers.items()} for part, layers in calls.items()}
        self.on_start(heads, trace.queries, trace.keys)
        for part, layers in calls.items():
            for layer, call in layers.items():
                self.notify(part, layer, call)


def stream_trace(
    model: object,
    source: TextInput,
    tokenizer: Any = None,
    *,
    target: TextInput | None = None,
    continuation: Sequence[int] = (),
    name: str = "",
    on_start: Callable[[Heads, Sides, Sides], None] = _ignore,
    on_layer: Callable[[str, int, Call | Mixing], None] = _ignore,
    stop: Callable[[], bool] = lambda: False,
    residuals: int | None = None,
) -> Trace:
    """Return the trace of `qkv.trace`, reported layer by layer, with the final states in `more["states"]`.

    `continuation` are ids to append to the text (to the target of an encoder-decoder). `on_start(heads, queries, keys)` is
    called first with the number of heads of each layer, by part, and the tokens. `on_layer(part, layer, call)` is called as
    soon as a layer's attention is computed. If `stop()` then returns True, `StreamStopped` is raised.

    A decoder reads up to 8,192 tokens at once. A longer text is read in chunks, and its layers are reported during the last
    one. transformers models whose layers are unknown beforehand are reported after the forward pass.

    `more["states"]` (B, N, C), after the last norm, is the input of the model's head, for logits at single positions.
    `residuals=i` keeps the residual stream after every block at token i of the first text, (blocks, C), in
    `more["residuals"]` (native models).

    >>> import torch
    >>> from ...model import Config, Transformer
    >>> _ = torch.manual_seed(0)
    >>> model = Transformer(Config(vocab=50, width=32, n_layer=2, n_head=4)).eval()
    >>> recorded = stream_trace(
    ...     model, [3, 1, 4], continuation=[1, 5], residuals=-1,
    ...     on_start=lambda heads, queries, keys: print(heads, queries["decoder"][0].pieces),
    ...     on_layer=lambda part, layer, call: print(part, layer, tuple(call.q.shape)),
    ... )
    {'decoder': {0: 4, 1: 4}} ('[3]', '[1]', '[4]', '[1]', '[5]')
    decoder 0 (1, 4, 5, 8)
    decoder 1 (1, 4, 5, 8)
    >>> words = logits_of_states(model, recorded.more["states"][0, -1])
    >>> words.shape, bool(torch.allclose(words, model(torch.tensor([[3, 1, 4, 1, 5]]))[0, -1], atol=1e-6))
    (torch.Size([50]), True)
    >>> lens = logits_of_states(model, apply_final_norm(model, recorded.more["residuals"]))  # of every block
    >>> lens.shape, bool(torch.allclose(lens[-1], words, atol=1e-6))
    (torch.Size([2, 50]), True)
    """
    listener = TraceListener(on_start, on_layer, stop, tuple(int(i) for i in continuation), residuals)
    return model_of(model).trace(TraceRequest(source, tokenizer, target, name=name, listener=listener))


def logits_of_states(model: Transformer, states: Tensor) -> Tensor:
    """Return a native model's logits (…, V) for final states (…, C)."""
    with torch.no_grad():
        logits = logits_of(model, states.reshape(-1, states.shape[-1])).float()
        logits = logits.view(*states.shape[:-1], logits.shape[-1])
    if model.config.output.head == "none" or logits.shape[-1] != model.config.vocab:
        raise wordless(model)
    return logits


def apply_final_norm(model: Transformer, residuals: Tensor) -> Tensor:
    """Apply a native model's last norm, if it has one, to the residual stream (…, C)."""
    norm = model.encoder_norm if model.decoder is None else model.decoder_norm
    with torch.no_grad():
        return residuals if norm is None else norm(residuals)
