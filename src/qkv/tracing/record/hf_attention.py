"""Observe the attention kernels of `transformers` models.

Every attention module gets its kernel from `AttentionInterface.get_interface(name, eager)`. While there are listeners, that
method returns the same function in a wrapper which passes arguments and result on. The model is not changed, not even the
name of its attention implementation: some models mask other keys under another name (DeepSeek V3.2).

B batch, H heads, G key/value heads, N queries, M keys, D head width.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, partialmethod
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ...attention import masks
from ...attention.dispatch import Call, apply_edits
from ...attention.formula import mix
from ...attention.rules import Band
from ...i18n import Problem, all_of, pip_install
from ..views.token_labels import PARTS
from .tokenizer_protocol import Inputs

HIDDEN = -1e4  # an additive mask hides where it is this or less
CROSS = re.compile("cross|encdec|encoder_attn|enc_attn", re.IGNORECASE)
OTHER_MODALITIES = re.compile("vision|visual|image|audio|speech", re.IGNORECASE)
WEIGHTLESS = re.compile("linearattention|lightning|delta")  # kinds of attention without weights
HELPERS = re.compile("(Output|Structure|Embeddings?|Mask|Pooling|Norm)$")  # named after attention, but not attention

Rules = dict[int, tuple[Tensor, masks.Mask, Tensor | None]]  # cache of parsed masks, since layers share them
Stacks = dict[str, dict[int, tuple[str, nn.Module]]]  # part → a layer's number in the model → its name and module


class HFConfig(Protocol):
    """The settings of a transformers model that are read here; others may be missing."""

    is_encoder_decoder: bool
    model_type: str
    num_hidden_layers: int
    vocab_size: int

    def get_text_config(self, *, decoder: bool = False) -> HFConfig: ...


class PretrainedModel(Protocol):
    """The part of transformers' `PreTrainedModel` that is used here."""

    config: HFConfig
    device: torch.device
    main_input_name: str

    @property
    def base_model(self) -> nn.Module: ...

    @property
    def forward(self) -> Callable[..., Any]: ...

    def __call__(self, **inputs: object) -> Any: ...

    def eval(self) -> object: ...

    def modules(self) -> Iterator[nn.Module]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...

    def can_generate(self) -> bool: ...

    def generate(self, **inputs: object) -> Tensor: ...

    def get_input_embeddings(self) -> nn.Module: ...

    def _can_set_attn_implementation(self) -> bool: ...


class Untraceable(Problem):
    """The model's attention can't be traced, on any text."""


def unwrap_model(model: Any) -> PretrainedModel:
    """Return the transformers model inside wrappers of torch.compile and peft; refuse any other object."""
    model = getattr(model, "_orig_mod", model)  # torch.compile
    if hasattr(model, "get_base_model"):  # peft
        model = model.get_base_model()
    library = sys.modules.get("transformers")
    if library is None or not isinstance(model, library.PreTrainedModel):
        raise Problem("a model of qkv or of transformers can be traced; this is a {kind}", kind=type(model).__name__)
    return model


def untraceable(model: PretrainedModel | nn.Module, classes: Sequence[str]) -> Problem:
    """Return the problem of attention that doesn't use transformers' kernel registry, or of a model without attention."""
    names = sorted(set(classes))
    if not names:
        return Untraceable(
            "{model} can't be traced: none of its modules attends with weights, so there is nothing to see",
            model=type(model).__name__,
        )
    return Untraceable(
        "{model} can't be traced: the attention of {classes} doesn't ask transformers for its kernel, so "
        "nobody can listen; for a short text there are the weights that the model gives itself, kept whole: "
        "--eager, or trace(…, eager=True)",
        model=type(model).__name__,
        classes=all_of(names),
    )


def stacks(model: PretrainedModel) -> Stacks:
    """Return the attention modules by part and layer."""
    modules: dict[str, list[tuple[str, nn.Module]]] = {}
    for name, module in attention_modules(model):
        modules.setdefault(part_of(model, name, module), []).append((name, module))
    return {
        part: dict(zip(layer_numbers([name for name, _ in modules[part]]), modules[part], strict=True))
        for part in PARTS
        if part in modules
    }


def context_of(model: PretrainedModel) -> int | None:
    """Return the context length of the config, None if it has none."""
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return context if isinstance(context, int) else None


def heads_of(model: PretrainedModel) -> dict[str, dict[int, int]]:
    """Return the number of heads of each layer, by part; refuse a model whose heads can't be edited one by one."""
    shared = getattr(model.config, "num_hidden_groups", None)
    if shared is not None and shared < model.config.num_hidden_layers:  # ALBERT
        raise Problem(
            "the layers of {model} share one attention, so a head of one layer can't be edited by itself",
            model=type(model).__name__,
        )
    if not model._can_set_attn_implementation():
        classes = sorted({type(module).__name__ for _, module in attention_modules(model)} or {type(model).__name__})
        raise Problem(
            "heads of {model} can't be edited: the attention of {classes} doesn't ask transformers for its kernel",
            model=type(model).__name__,
            classes=all_of(classes),
        )
    return {part: {i: _heads(module) for i, (_, module) in layers.items()} for part, layers in stacks(model).items()}


def attention_modules(model: PretrainedModel, *, all_modalities: bool = False) -> list[tuple[str, nn.Module]]:
    """Return the innermost modules named after attention, without those for images and audio."""
    family = str(model.config.model_type).replace("_", "").replace("-", "").lower()

    def is_attention(module: nn.Module) -> bool:
        kind = type(module).__name__
        rest = kind.lower().removeprefix(family)  # the softmax of Kimi Linear is KimiLinearAttention
        return "Attention" in kind and not WEIGHTLESS.search(rest) and not HELPERS.search(kind)

    return [
        (name, module)
        for name, module in model.named_modules()
        if is_attention(module)
        and (all_modalities or not OTHER_MODALITIES.search(name))
        and not any(is_attention(inner) for inner in module.modules() if inner is not module)
    ]


def layer_numbers(names: Sequence[str]) -> tuple[int, ...]:
    """Return the layer numbers in the names of attention modules; 0, 1, 2, … if those don't rise.

    >>> layer_numbers(["model.layers.3.self_attn", "model.layers.7.self_attn"])  # the others have no attention
    (3, 7)
    >>> layer_numbers(["encoder.blocks.0.0.attention", "encoder.blocks.0.1.attention", "encoder.blocks.1.0.attention"])
    (0, 1, 2)
    """
    numbers = [next((int(word) for word in name.split(".") if word.isdigit()), -1) for name in names]
    rising = all(a < b for a, b in pairwise(numbers))
    return tuple(numbers) if rising and numbers[:1] != [-1] else tuple(range(len(names)))


def side_of(name: str) -> str | None:
    """Return "encoder" or "decoder", whichever comes first in a module's name, else None.

    >>> side_of("decoder.bert.encoder.layer.0.attention.self")  # a decoder made of BERT
    'decoder'
    """
    match = re.search("encoder|decoder", name)
    return None if match is None else match[0]


def part_of(model: PretrainedModel, name: str, module: nn.Module) -> str:
    """Return the part of the model that an attention module belongs to."""
    if getattr(module, "is_cross_attention", False) or CROSS.search(name):
        return "cross"
    if model.config.is_encoder_decoder:
        return side_of(name) or "decoder"
    return "decoder" if getattr(module, "is_causal", model.can_generate()) else "encoder"


def _heads(module: nn.Module) -> int:
    for what in ("num_heads", "num_attention_heads", "n_heads", "n_head"):
        for holder in (module, getattr(module, "config", None)):
            if isinstance(count := getattr(holder, what, None), int):
                return count
    raise untraceable(module, [type(module).__name__])


Listener = tuple[Callable[..., None], dict[int, str], int]  # callback, its modules' names, its thread
listeners: list[Listener] = []  # global, as the library's registry is
_edited: dict[int, str] = {}  # id of a module → the name of its edits
_replaced: dict[tuple[int, str], list[Any]] = {}  # id of an owner and a name → the original, and how many replace it
_lock = threading.Lock()


@contextmanager
def replacing(owner: Any, name: str, replacement: Callable[[Any], Any]) -> Iterator[None]:
    """Replace an attribute of a class, or a global of a module, inside the block; if blocks overlap, until the last ends."""
    is_class, key = isinstance(owner, type), (id(owner), name)
    put = partial(setattr, owner) if is_class else owner.__setitem__
    with _lock:
        patch = _replaced.setdefault(key, [getattr(owner, name) if is_class else owner[name], 0])
        patch[1] += 1
        put(name, replacement(patch[0]))
    try:
        yield
    finally:
        with _lock:
            patch[1] -= 1
            if not patch[1]:
                put(name, _replaced.pop(key)[0])


@contextmanager
def subscribed(subscribers: list[Any], listener: object) -> Iterator[None]:
    """Add the listener to a list inside the block."""
    subscribers.append(listener)
    try:
        yield
    finally:
        subscribers[:] = [other for other in subscribers if other is not listener]


@contextmanager
def observing_kernels() -> Iterator[None]:
    """Wrap the attention functions of transformers inside the block."""
    from transformers import AttentionInterface

    library: Any = AttentionInterface
    if not hasattr(library, "get_interface"):
        raise Problem(
            "transformers {version} can't be listened to; install 5.1 or newer: {command}",
            version=sys.modules["transformers"].__version__,
            command=pip_install("-U transformers"),
        )
    with replacing(library, "get_interface", lambda own: partialmethod(_get_interface, own)):
        yield


@contextmanager
def editing(model: PretrainedModel, names: Mapping[tuple[str, int], str]) -> Iterator[None]:
    """Apply edits of these names to these (part, layer) inside the block."""
    modules = {
        id(module): names[part, i]
        for part, layers in stacks(model).items()
        for i, (_, module) in layers.items()
        if (part, i) in names
    }
    outer = {key: _edited[key] for key in modules if key in _edited}
    _edited.update(modules)
    try:
        with observing_kernels():
            yield
    finally:
        for key in modules.keys() - outer.keys():
            _edited.pop(key, None)
        _edited.update(outer)


def _get_interface(
    self: Any, method: Callable[..., Any], attn_implementation: str, default: Any
) -> Callable[..., tuple[Tensor, Any]]:
    """Replace `AttentionInterface.get_interface`: wrap the function that it returns."""
    function = method(self, attn_implementation, default)
    implementation = attn_implementation or "eager"

    def observed(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any = None, *more: Any, **options: Any
    ) -> tuple[Tensor, Any]:
        output, weights = function(module, query, key, value, attention_mask, *more, **options)
        if more:
            options |= dict(zip([*inspect.signature(function).parameters][5:], more, strict=False))
        final = output
        if id(module) in _edited:
            call = call_of(module, query, key, value, attention_mask, options, implementation, _edited[id(module)], {})
            changed, _ = apply_edits(call, output.transpose(1, 2), None)  # (B, H, N, D)
            final = changed.transpose(1, 2).contiguous()
        for listener, names, thread in list(listeners):
            if id(module) in names and thread == threading.get_ident():
                listener(
                    names[id(module)],
                    module,
                    (query, key, value, attention_mask, options, implementation),
                    output,
                    final,
                )
        return final, weights

    return observed


def configs_of(model: PretrainedModel) -> list[Any]:
    """Return every config that names the attention implementation of a part of the model."""
    configs: dict[int, Any] = {}
    pending = [getattr(module, "config", None) for module in model.modules()]
    while pending:
        config = pending.pop()
        if id(config) not in configs and hasattr(config, "_attn_implementation_internal"):
            configs[id(config)] = config
            pending += [getattr(config, key, None) for key in getattr(config, "sub_configs", ())]
    return list(configs.values())


def call_of(
    module: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any,
    options: Inputs,
    implementation: str,
    name: str,
    rules: Rules,
) -> Call:
    """Return the arguments of an attention function as a `Call`."""
    bias = options.get("position_bias")
    rule = masks.full()
    n, m = q.shape[2], k.shape[2]
    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if mask is None or (isinstance(mask, Tensor) and mask.ndim == 2):
        # Eager attention has no implicit mask.
        if implementation != "eager" and causal and n > 1:
            rule = masks.causal()
            if "flash" in implementation:
                reach = options.get("sliding_window")
                rule = rule if reach is None else Band(reach - 1, 0)
            elif m > n:  # unused space of a cache
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
        raise Problem(
            "{model} runs its attention as {kind}, whose masks can't be read: call "
            "model.set_attn_implementation('sdpa') first",
            model=type(module).__name__,
            kind=implementation,
        )
    if bias is not None:
        if id(bias) not in rules:
            rules[id(bias)] = (bias, rule, bias if bool(bias.any()) else None)  # the bias of T5's cross-attention is 0
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
    """Return a mask (B, H, N, M) as the shortest rule that equals it, and its finite bias if there is one."""
    if mask.dtype == torch.bool:
        return rule_of(mask), None
    is_hidden = mask <= HIDDEN
    if bool(((mask == 0) | is_hidden).all()):
        return rule_of(~is_hidden), None
    return rule_of(~is_hidden), mask.masked_fill(is_hidden, 0.0)


def rule_of(allowed: Tensor) -> masks.Mask:
    """Return a boolean mask as a band (causal, a window) and padding if they equal it, else as a dense mask."""
    _, heads, n, m = allowed.shape
    if heads > 1 or 0 in (n, m):
        return masks.dense(allowed)
    table = allowed[:, 0]
    visible_keys = table.any(1)  # (B, M): keys that a query may see
    seeing_queries = table.any(2)  # (B, N): queries that may see a key
    if not bool(seeing_queries.any()):
        return masks.dense(allowed)
    marks = table.contiguous().view(torch.uint8)
    rows = torch.arange(n, device=allowed.device) + (m - n)
    first, last = marks.argmax(2), m - 1 - marks.flip(2).argmax(2)
    behind, ahead = int((rows - first)[seeing_queries].max()), int((last - rows)[seeing_queries].max())
    padding = masks.full() if bool(visible_keys.all()) else masks.padding(visible_keys)
    bands = ((None, None), (None, 0), (behind, 0), (None, ahead), (behind, None), (behind, ahead))
    for band in dict.fromkeys(bands):
        rule = (masks.full() if band == (None, None) else Band(*band)) & padding
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


def reproduces(call: Call, output: Tensor) -> bool:
    """True if two rows of the call give the kernel's output (B, N, H, D). Rows that may see nothing don't count."""
    batch, heads, n, _ = call.q.shape
    m = call.k.shape[2]
    rows = sorted({n // 2, n - 1})
    allowed = call.mask.tensor(n, m, batch=batch, heads=heads, rows=rows, device=call.q.device)
    bias = call.bias
    if bias is not None:
        bias = bias.expand(*bias.shape[:-2], n, m)[..., rows, :]
    rows_call = Call(
        call.q[:, :, rows], call.k, call.v, masks.dense(allowed), call.scale, bias, call.softcap, call.sinks
    )
    ours = mix(rows_call.weights(), call.v, torch.float32)  # (B, H, 2, D)
    return close(ours, output[:, rows].transpose(1, 2), allowed.any(-1).expand(batch, heads, len(rows)))


def close(ours: Tensor, theirs: Tensor, counted: Tensor) -> bool:
    """True if the counted rows are equal up to rounding; the others may be anything, even NaN."""
    if ours.shape != theirs.shape:
        return False
    tolerance = 1e-3 if theirs.dtype in (torch.float32, torch.float64) else 5e-2
    error = (ours - theirs.float()).abs().amax(-1)[counted]
    size = theirs.float().abs().amax(-1)[counted]
    return not error.numel() or bool(error.max() <= tolerance * (size.max() + 1e-6))
