"""Trace a `transformers` model from the attention weights that it returns itself (`trace(…, eager=True)`).

This is for models that bypass the library's kernel registry (BLOOM, Falcon, DeBERTa, XLNet …). With `attn_implementation="eager"`
and `output_attentions=True` they return the result of their softmax, (B, H, N, M) per layer, which grows with n². There are
no q, k and v: a call has q, k and v of width 0, and its bias is the logarithm of the weights, whose softmax is the weights.

Weights that aren't one row per token with sum 1 (Longformer's windows, Reformer's buckets, Funnel's pooled rows) are refused.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ...attention import masks
from ...attention.dispatch import Call
from ...attention.rules import Dense
from ...i18n import Notice, Problem
from .hf_attention import Inputs, PretrainedModel, Untraceable, attention_modules, configs_of, part_of, rule_of
from .hf_inputs import batch_size, entry_point, is_seq2seq, run
from .hf_trace import ForwardRecording

FIELDS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
HOOKED = "_output_capturing_hooks_installed"  # an attribute that transformers sets


def weights_of(model: PretrainedModel, inputs: Inputs, options: Inputs) -> tuple[ForwardRecording, Tensor]:
    """Return the weights of every layer as calls of width 0, and the model's logits (or states)."""
    _announce_size(model, inputs)
    called = entry_point(model, inputs)
    parameters = inspect.signature(getattr(called, "forward", called)).parameters.values()
    nothing = Untraceable(
        "{model} gives no attention weights, not even with output_attentions=True: it has none, or was loaded "
        "with an attention that keeps them (load it with attn_implementation='eager')",
        model=type(model).__name__,
    )
    if not any(p.name == "output_attentions" or p.kind is p.VAR_KEYWORD for p in parameters):
        raise nothing
    recording = ForwardRecording(model, "input_ids" in inputs)
    for _ in range(2):  # on its first short text BigBird switches to attention modules without the library's hooks
        recording.forward_calls.clear()
        with _eager_attention(model), recording.listen():
            outputs = run(model, inputs | options | {"output_attentions": True})
        if any(outputs.get(field) for field in ("attentions", *FIELDS.values())):
            break
    tables = {part: list(outputs.get(field) or ()) for part, field in FIELDS.items()}
    if outputs.get("attentions"):
        tables[_part(recording, outputs["attentions"])] = list(outputs["attentions"])
    if tables["encoder"] and not is_seq2seq(model):
        tables["decoder"] = []  # attention to another stack's output (FastSpeech's frames), not to tokens
    logits = outputs[0] if outputs.get("logits") is None else outputs.get("logits")
    del outputs  # so that each layer's weights are freed once they are converted
    for part, layers in tables.items():
        present = [i for i, weights in enumerate(layers) if weights is not None]
        expected, names = _sizes(inputs, is_seq2seq(model))[part], _names(model, recording, part, present, len(layers))
        for i, name in zip(present, names, strict=True):
            recording.calls.setdefault(part, []).append(_call(model, layers[i], expected))
            recording.names.setdefault(part, []).append(name)
            layers[i] = None
    if not recording.calls:
        raise nothing
    return recording, logits


def bytes_of(model: PretrainedModel, inputs: Inputs) -> int:
    """Return the size of all weights: 4 bytes for every query, key, head, layer and text."""
    sizes = _sizes(inputs, is_seq2seq(model))
    heads = getattr(model.config.get_text_config(), "num_attention_heads", None)
    heads = max(heads) if isinstance(heads, list | tuple) else heads or 1
    total = 0
    for name, module in attention_modules(model):
        n, m = sizes[part_of(model, name, module)]
        total += 4 * batch_size(inputs) * heads * (n or 0) * (m or n or 0)
    return total


def _announce_size(model: PretrainedModel, inputs: Inputs) -> None:
    """Warn of the size of the weights if the input determines it; refuse what exceeds this machine's memory."""
    if not (size := bytes_of(model, inputs)):
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else size + 1
    amounts = dict(size=_format_bytes(size), tokens=max(n or 0 for n, _ in _sizes(inputs, is_seq2seq(model)).values()))
    if size > memory and model.device.type == "cpu":
        raise Problem(
            "the weights of all heads for {tokens} tokens are {size}, and this machine has {there}: shorten the text",
            **amounts,
            there=_format_bytes(memory),
        )
    warnings.warn(
        Notice(
            "the weights of all heads are kept whole, as the model gives them: {size} for {tokens} tokens, and "
            "four times that for twice as many",
            **amounts,
        ),
        stacklevel=5,  # the caller of trace
    )


def _format_bytes(size: int) -> str:
    """Return a number of bytes as text.

    >>> _format_bytes(1_500_000), _format_bytes(16_900_000_000)
    ('1.5 MB', '16.9 GB')
    """
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


def _sizes(inputs: Inputs, both: bool) -> dict[str, tuple[int | None, int | None]]:
    """Return the numbers of queries and keys of every part, None where the input doesn't determine them."""
    ids = inputs.get("input_ids")
    source = None if ids is None else ids.shape[1]
    answer = inputs["decoder_input_ids"].shape[1] if both else source
    states = inputs.get("encoder_hidden_states")
    memory = source if both else None if states is None else states.shape[1]
    return {"encoder": (source, source), "decoder": (answer, answer), "cross": (answer, memory)}


@contextmanager
def _eager_attention(model: PretrainedModel) -> Iterator[None]:
    """Use eager attention inside the block; afterwards, remove the hooks that the library leaves in the model."""
    implementations = [(config, config._attn_implementation_internal) for config in configs_of(model)]
    hooks = [(module, set(module._forward_hooks), HOOKED in vars(module)) for module in model.modules()]
    try:
        for config, _ in implementations:
            config._attn_implementation_internal = "eager"
        yield
    finally:
        for config, before in implementations:
            config._attn_implementation_internal = before
        for module, before, hooked in hooks:
            for key in set(module._forward_hooks) - before:
                del module._forward_hooks[key]
            if not hooked:
                vars(module).pop(HOOKED, None)


def _part(recording: ForwardRecording, layers: Iterable[object]) -> str:
    """Return the part of a model with one stack: that of its modules, else decoder if no token attends to a later one."""
    for name, module in attention_modules(recording.model, all_modalities=not recording.text):
        if recording.forward_calls[module] and hasattr(module, "is_causal"):
            if (part := part_of(recording.model, name, module)) != "cross":
                return part
    tables = [table for table in layers if isinstance(table, Tensor) and table.ndim == 4]
    has_future = any(bool(table.triu(1 + table.shape[3] - table.shape[2]).any()) for table in tables)
    return "encoder" if has_future or not tables else "decoder"


def _names(
    model: PretrainedModel, recording: ForwardRecording, part: str, present: list[int], layers: int
) -> list[str]:
    """Return a name with its layer's number for each table: of the modules that ran, if there are as many."""

    def belongs(side: str) -> bool:  # with one stack, `_part` has decided between encoder and decoder
        return side == part if is_seq2seq(model) else (side == "cross") == (part == "cross")

    if len(present) < layers:  # None stands for layers that have no weights
        return [f"layers.{i}" for i in present]
    names = [
        name
        for name, module in attention_modules(model, all_modalities=not recording.text)
        for _ in range(recording.forward_calls[module])
        if belongs(part_of(model, name, module))
    ]
    return names if len(names) == layers else [""] * layers


def _call(model: PretrainedModel, weights: Tensor, expected: tuple[int | None, int | None]) -> Call:
    """Check a layer's weights and return them as a call of width 0."""
    kind = type(model).__name__
    shape = tuple(weights.shape) if isinstance(weights, Tensor) else ()
    if len(shape) != 4 or any(size not in (None, actual) for size, actual in zip(expected, shape[2:], strict=True)):
        raise Untraceable(
            "{model} gives attention weights of the size {found} where {wanted} was expected, queries × keys: its "
            "rows and columns aren't the tokens, so a map would be wrong",
            model=kind,
            found=str(shape),
            wanted=f"(…, {expected[0] or 'n'}, {expected[1] or 'm'})",
        )
    tolerance = 1e-4 if weights.dtype in (torch.float32, torch.float64) else 2e-2
    weights = weights.float()
    total, least = weights.sum(-1), float(weights.min())
    off = torch.where(total == 0, 0.0, (total - 1).abs())  # a row that may see nothing sums to 0
    if not float(off.max()) <= tolerance or least < 0:  # also refuses NaN
        low, high = float(total.min()), float(total.max())
        raise Untraceable(
            "{model} gives attention weights whose rows add up to {low} … {high}, not to 1: they aren't the "
            "shares of its tokens",
            model=kind,
            low=f"{low:.3g}",
            high=f"{high:.3g}",
        )
    batch, heads, n, m = shape
    rule = rule_of((weights > 0).any(1, keepdim=True))
    empty_q = weights.new_zeros(batch, heads, n, 0)
    empty_kv = weights.new_zeros(batch, heads, m, 0)
    return Call(empty_q, empty_kv, empty_kv, masks.full() if isinstance(rule, Dense) else rule, 1.0, weights.log())
