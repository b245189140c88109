"""A trace while it is made: what a text is is told before anything is computed, and every layer as soon as it attends.

    stream_trace(model, text, tokenizer, on_layer=show)      show(part, layer, call) after each layer, not after the last

What `heard` does with a layer (a picture of every head, say) is done while the next ones wait, so a person sees the first
layers early, and whoever no longer wants to know stops the pass between two of them.
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
Sides = dict[str, list[Tokens]]  # part → the tokens that ask, or those that are looked at, per item


class StreamStopped(Exception):
    """Whoever followed asked for no more."""


def _ignore(*what: object) -> None:
    pass


@dataclass(frozen=True)
class TraceListener:
    """Who follows a model while it runs, and what is wanted beside a trace; see `follow`."""

    on_start: Callable[[Heads, Sides, Sides], None] = _ignore
    on_layer: Callable[[str, int, Call | Mixing], None] = _ignore
    stop: Callable[[], bool] = lambda: False
    continuation: tuple[int, ...] = ()
    residuals: int | None = None

    def notify(self, part: str, layer: int, call: Call | Mixing) -> None:
        """A layer is there."""
        self.on_layer(part, layer, call)
        self.check_stop()

    def check_stop(self) -> None:
        """A place where one may stop.

        >>> TraceListener(stop=lambda: True).check_stop()
        Traceback (most recent call last):
        qkv.tracing.record.streaming.StreamStopped
        """
        if self.stop():
            raise StreamStopped

    def notify_all(self, trace: Trace) -> None:
        """All at once, where layers couldn't be known before the model had run."""
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
    """`qkv.trace`, followed layer by layer. The trace is the same, and holds the final states in `more["states"]`.

    `more` are ids that come after the text's own (after what is said, of an encoder-decoder). First
    `told(heads, queries, keys)` says which layers of which part have how many heads, and what the tokens are; then
    `heard(part, layer, call)` gets every layer's call, by the layer's number in the model, as soon as its attention is
    computed; and after each, where `stop()` says so, `StreamStopped` is raised out of the forward pass.

    A text of up to 8,192 tokens goes through a decoder at once; of a longer one, which goes through in chunks, layers are
    heard in the last. Models of transformers whose layers aren't known beforehand are told and heard when they have run.

    `more["states"]` (B, N, C), after the last norm, is what a model's head makes words of: of one place, without the
    logits of all. `residuals=place` keeps the stream after every block at that token of the first text, (blocks, C), in
    `more["residuals"]` (models of ours).

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
    >>> lens = logits_of_states(model, apply_final_norm(model, recorded.more["residuals"]))  # what the model would say after each block
    >>> lens.shape, bool(torch.allclose(lens[-1], words, atol=1e-6))
    (torch.Size([2, 50]), True)
    """
    listener = TraceListener(on_start, on_layer, stop, tuple(int(i) for i in continuation), residuals)
    return model_of(model).trace(TraceRequest(source, tokenizer, target, name=name, listener=listener))


def logits_of_states(model: Transformer, states: Tensor) -> Tensor:
    """The logits (…, V) that a model of ours gives to final states (…, C); see `follow`."""
    with torch.no_grad():
        logits = logits_of(model, states.reshape(-1, states.shape[-1])).float()
        logits = logits.view(*states.shape[:-1], logits.shape[-1])
    if model.config.output.head == "none" or logits.shape[-1] != model.config.vocab:
        raise wordless(model)
    return logits


def apply_final_norm(model: Transformer, residuals: Tensor) -> Tensor:
    """What a model of ours would end in if its last block were this one: its last norm, where it has one, of the stream (…, C)."""
    norm = model.encoder_norm if model.decoder is None else model.decoder_norm
    with torch.no_grad():
        return residuals if norm is None else norm(residuals)
