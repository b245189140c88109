"""How attention inside a model of `transformers` is heard: through the registry that its models ask for their kernels.

While a model is heard, its attention goes by the name "qkv": `_attention` hands q, k, v and the mask to whoever listens
and runs the very kernel the model would have run, with the same arguments. Afterwards the model is as it was.

B batch, H heads, G key/value heads, N queries, M keys, D head width.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..attention import attend as attending
from ..attention import masks
from ..attention.attend import Call
from ..attention.rules import Band
from ..words import Problem, all_of
from .trace import PARTS

NAME = "qkv"  # under which transformers knows us
HIDDEN = -1e4  # an additive mask of this or less hides
CROSS = re.compile("cross|encdec|encoder_attn|enc_attn", re.IGNORECASE)
OTHER_SENSES = re.compile("vision|visual|image|audio|speech", re.IGNORECASE)

Inputs = dict[str, Any]
Rules = dict[int, tuple[Tensor, masks.Mask, Tensor | None]]  # masks that were read already, since layers share them


def known(model: Any) -> Any:
    """The model of transformers itself, out of what may be wrapped around it; refuses what can't be heard."""
    model = getattr(model, "_orig_mod", model)  # torch.compile's
    if hasattr(model, "get_base_model"):  # peft's
        model = model.get_base_model()
    library = sys.modules.get("transformers")
    if library is None or not isinstance(model, library.PreTrainedModel):
        raise Problem("trace.model", kind=type(model).__name__)
    if not model._can_set_attn_implementation():
        classes = sorted({type(m).__name__ for _, m in attentions(model)} or {type(model).__name__})
        raise Problem("trace.registry", model=type(model).__name__, classes=all_of(classes))
    return model


def stacks(model: Any) -> dict[str, list[tuple[str, nn.Module]]]:
    """The attention modules by part, in order, each with its name in the model."""
    found: dict[str, list[tuple[str, nn.Module]]] = {}
    for name, module in attentions(model):
        found.setdefault(part_of(model, name, module), []).append((name, module))
    return {part: found[part] for part in PARTS if part in found}


def heads_of(model: Any) -> dict[str, list[int]]:
    """How many heads each layer of each part has."""
    shared = getattr(model.config, "num_hidden_groups", None)
    if shared is not None and shared < model.config.num_hidden_layers:  # ALBERT's
        raise Problem("trace.edit.shared", model=type(model).__name__)
    return {part: [_heads(module) for _, module in layers] for part, layers in stacks(model).items()}


def attentions(model: Any) -> list[tuple[str, nn.Module]]:
    """Modules named after attention that hold no other such module, those for pictures and sound left out."""

    def named(module: nn.Module) -> bool:
        return "Attention" in type(module).__name__

    return [
        (name, module)
        for name, module in model.named_modules()
        if named(module)
        and not OTHER_SENSES.search(name)
        and not any(named(inner) for inner in module.modules() if inner is not module)
    ]


def part_of(model: Any, name: str, module: nn.Module) -> str:
    if getattr(module, "is_cross_attention", False) or CROSS.search(name):
        return "cross"
    if model.config.is_encoder_decoder:
        return "encoder" if "encoder" in name.split(".") else "decoder"
    return "decoder" if getattr(module, "is_causal", model.can_generate()) else "encoder"


def _heads(module: Any) -> int:
    for what in ("num_heads", "num_attention_heads", "n_heads", "n_head"):
        for holder in (module, getattr(module, "config", None)):
            if isinstance(count := getattr(holder, what, None), int):
                return count
    raise Problem("trace.registry", model=type(module).__name__, classes=type(module).__name__)


@dataclass(eq=False)
class _Before:
    """What a config said before we were named in it, and how many hear it now."""

    config: Any
    name: str | None
    count: int = 0


_before: dict[int, _Before] = {}
listeners: list[tuple[Callable[..., None], dict[int, str], int]] = []  # with its modules' names and its thread
_edited: dict[int, str] = {}  # a module → the name its edits go by


@contextmanager
def hearing(model: Any) -> Iterator[None]:
    """Inside the block the model's attention passes through here; afterwards it is as it was, whatever happened."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _mask)
    configs = _configs(model)
    for config in configs:
        _before.setdefault(id(config), _Before(config, config._attn_implementation)).count += 1
    try:
        model.set_attn_implementation(NAME)
        yield
    finally:
        for config in configs:
            kept = _before[id(config)]
            kept.count -= 1
            if not kept.count:
                config._attn_implementation_internal = kept.name
                del _before[id(config)]


@contextmanager
def editing(model: Any, names: Mapping[tuple[str, int], str]) -> Iterator[None]:
    """Hear the model, and let edits of these names apply to these (part, layer)s."""
    modules = {
        id(layers[i][1]): names[part, i]
        for part, layers in stacks(model).items()
        for i in range(len(layers))
        if (part, i) in names
    }
    outer = {key: _edited.get(key) for key in modules}
    _edited.update(modules)
    try:
        with hearing(model):
            yield
    finally:
        for key, value in outer.items():
            if value is None:
                _edited.pop(key, None)
            else:
                _edited[key] = value


def _configs(model: Any) -> list[Any]:
    """Every config that says which attention a part of the model runs."""
    found: dict[int, Any] = {}
    waiting = [getattr(module, "config", None) for module in model.modules()]
    while waiting:
        config = waiting.pop()
        if id(config) not in found and hasattr(config, "_attn_implementation_internal"):
            found[id(config)] = config
            waiting += [getattr(config, key, None) for key in getattr(config, "sub_configs", ())]
    return list(found.values())


def _mask(*given: Any, config: Any = None, **options: Any) -> Any:
    """transformers asks for a mask: the one that the model's own implementation would have got."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    own = _own(config)
    if own not in ALL_MASK_ATTENTION_FUNCTIONS:
        return None
    return ALL_MASK_ATTENTION_FUNCTIONS[own](*given, config=config, **options)


def _attention(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None, **options: Any) -> tuple[Tensor, Any]:
    """What runs in the place of the model's attention function: that function, with somebody listening."""
    own = _own(getattr(module, "config", None))
    output, weights = _function(module, own)(module, q, k, v, mask, **options)
    given = output
    if id(module) in _edited and attending._edits:
        call = call_of(module, q, k, v, mask, options, own, _edited[id(module)], {})
        changed, _ = attending._edited(call, output.transpose(1, 2), None)  # (B, H, N, D)
        given = changed.transpose(1, 2).contiguous()
    for hear, names, thread in list(listeners):
        if id(module) in names and thread == threading.get_ident():
            hear(names[id(module)], module, (q, k, v, mask, options, own), output, given)
    return given, weights


def _own(config: Any) -> str:
    kept = _before.get(id(config))
    if kept is not None:
        return kept.name or "eager"
    # A copy of the config, made while we are named in it: whoever is heard has the same implementation.
    return next((kept.name for kept in _before.values() if kept.name), "sdpa")


def _function(module: Any, own: str) -> Callable[..., tuple[Tensor, Any]]:
    """The function that the model would have called: its file may have a registry and an eager way of its own."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    homes: list[Any] = [sys.modules.get(kind.__module__) for kind in type(module).__mro__]
    if own == "eager" and getattr(module, "reorder_and_upcast_attn", False):
        return lambda _, q, k, v, mask, **options: module._upcast_and_reordered_attn(q, k, v, mask)
    plain: Any = next(
        (home.eager_attention_forward for home in homes if hasattr(home, "eager_attention_forward")), None
    )
    registry = next((h.ALL_ATTENTION_FUNCTIONS for h in homes if hasattr(h, "ALL_ATTENTION_FUNCTIONS")), None)
    found = (registry or ALL_ATTENTION_FUNCTIONS).get_interface(own, plain)
    if found is None:
        raise Problem("trace.registry", model=type(module).__name__, classes=type(module).__name__)
    return found


def call_of(
    module: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any,
    options: Inputs,
    own: str,
    name: str,
    rules: Rules,
) -> Call:
    """The same attention as our `Call`."""
    bias = options.get("position_bias")
    rule = masks.full()
    n, m = q.shape[2], k.shape[2]
    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if mask is None or (isinstance(mask, Tensor) and mask.ndim == 2):
        # The eager way needs no telling: what it hides is in its mask.
        if own != "eager" and causal and n > 1:
            rule = masks.causal()
            if "flash" in own:
                reach = options.get("sliding_window")
                rule = rule if reach is None else Band(reach - 1, 0)
            elif m > n:  # room of a cache that nobody filled
                k, v = k[:, :, :n], v[:, :, :n]
                bias = None if bias is None else bias[..., :n]
        if mask is not None:
            rule = rule & masks.padding(mask[:, -m:] > 0)
    elif isinstance(mask, Tensor):
        if id(mask) not in rules:
            rules[id(mask)] = (mask, *_read_mask(mask[..., :m].expand(-1, -1, n, -1)))
        _, rule, added = rules[id(mask)]
        if added is not None:
            bias = added if bias is None else bias + added
    else:
        raise Problem("trace.mask", model=type(module).__name__, kind=own)
    if bias is not None:
        if id(bias) not in rules:
            rules[id(bias)] = (bias, rule, bias if bool(bias.any()) else None)  # T5's cross-attention adds zeros
        bias = rules[id(bias)][2]
    sinks = options.get("s_aux")
    sinks = sinks if sinks is None or torch.is_grad_enabled() else sinks.detach()
    scale = options.get("scaling")
    return Call(
        q,
        k,
        v,
        rule,
        q.shape[3] ** -0.5 if scale is None else float(scale),
        bias,
        options.get("softcap"),
        None if sinks is None else sinks.reshape(-1),
        name,
    )


def _read_mask(mask: Tensor) -> tuple[masks.Mask, Tensor | None]:
    """A mask of the model's, (B, H, N, M), as the shortest rule that equals it, and what it adds to the scores if anything."""
    if mask.dtype == torch.bool:
        return _rule(mask), None
    hidden = mask <= HIDDEN
    if bool(((mask == 0) | hidden).all()):
        return _rule(~hidden), None
    return _rule(~hidden), mask.masked_fill(hidden, 0.0)


def _rule(allowed: Tensor) -> masks.Mask:
    """A band (causal, a window) and padding, where together they equal what is written out; else that, as it is."""
    _, heads, n, m = allowed.shape
    if heads > 1 or 0 in (n, m):
        return masks.dense(allowed)
    table = allowed[:, 0]
    real = table.any(1)  # (B, M): keys that somebody sees
    seeing = table.any(2)  # (B, N): queries that see something
    if not bool(seeing.any()):
        return masks.dense(allowed)
    marks = table.contiguous().view(torch.uint8)
    rows = torch.arange(n, device=allowed.device) + (m - n)
    first, last = marks.argmax(2), m - 1 - marks.flip(2).argmax(2)
    left, right = int((rows - first)[seeing].max()), int((last - rows)[seeing].max())
    filled = masks.full() if bool(real.all()) else masks.padding(real)
    bands = ((None, None), (None, 0), (left, 0), (None, right), (left, None), (left, right))
    for band in dict.fromkeys(bands):
        rule = (masks.full() if band == (None, None) else Band(*band)) & filled
        if _equals(rule, table):
            return rule
    return masks.dense(allowed)


def _equals(rule: masks.Mask, table: Tensor, block: int = 256) -> bool:
    batch, n, m = table.shape
    return all(
        torch.equal(
            rule.tensor(n, m, batch=batch, rows=slice(i, i + block), device=table.device)[:, 0].expand(batch, -1, m),
            table[:, i : i + block],
        )
        for i in range(0, n, block)
    )


def explained(call: Call, output: Tensor) -> bool:
    """Do two rows of the call give what the kernel gave, (B, N, H, D)? Rows that see nothing don't count."""
    batch, heads, n, _ = call.q.shape
    m = call.k.shape[2]
    rows = sorted({n // 2, n - 1})
    allowed = call.mask.tensor(n, m, batch=batch, heads=heads, rows=rows, device=call.q.device)
    bias = call.bias
    if bias is not None:
        bias = bias.expand(*bias.shape[:-2], n, m)[..., rows, :]
    asked = Call(call.q[:, :, rows], call.k, call.v, masks.dense(allowed), call.scale, bias, call.softcap, call.sinks)
    mine = attending._mix(asked.weights(), call.v, torch.float32)  # (B, H, 2, D)
    theirs = output[:, rows].transpose(1, 2).float()
    if mine.shape != theirs.shape:
        return False
    seen = allowed.any(-1).expand(batch, heads, len(rows))
    near = 1e-3 if output.dtype in (torch.float32, torch.float64) else 5e-2
    far = ((mine - theirs).abs().amax(-1) * seen).max()
    return bool(far <= near * (theirs.abs().amax() + 1e-6))
