"""Trace a model of Hugging Face's `transformers`.

No code here is about one architecture, so everything is checked: two rows of every call must give the kernel's output, and
an output projection is recorded only if it reads the heads' outputs unchanged.
"""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...attention import masks
from ...attention.dispatch import Call
from ...attention.mask_algebra import Mask
from ...attention.rules import Band
from ...i18n import Problem, _, all_of
from ...mixers.calls import Mixing
from ..views.token_labels import CUT, END, PARTS
from ..views.traces import Projection, Trace
from . import hf_attention, hf_inputs, hf_mixers
from .chunking import chunks, is_long, join_call
from .hf_attention import Inputs, PretrainedModel, Rules, Untraceable
from .model_protocol import MAX_TARGET, TraceRequest, sides_of
from .tokenizer_protocol import AnyTokenizer

if TYPE_CHECKING:
    from .streaming import Sides, TraceListener

PROJECTIONS = ("o_proj", "out_proj", "c_proj", "dense", "o", "wo", "Wo", "out_lin")


def trace(model: PretrainedModel, request: TraceRequest) -> Trace:
    """Trace a `transformers` model.

    `request.source` may also be a tokenizer's result with `input_ids` and `attention_mask`, or `pixel_values`,
    `input_features` or `input_values`, which the model gets unchanged. Batches of texts are padded by the tokenizer if it
    can, lists of ids on the right. A decoder reads a long text in chunks if the library's cache keeps all of its keys.
    With `request.eager` the weights that the model returns are recorded (hf_eager.py).
    """
    tokenizer, listener = request.tokenizer, request.listener
    cut: int | None = None  # the number of tokens after which generation was cut off
    with hf_inputs.eval_mode(model):
        inputs = hf_inputs.inputs_of(model, request.source, tokenizer)
        if listener is not None and not hf_inputs.is_seq2seq(model):
            inputs = _append_ids(inputs, listener.continuation)
        _check_arguments(model, inputs)
        hf_inputs.warn_two_towers(model, inputs)
        context_notes = hf_inputs.check(model, inputs)
        if hf_inputs.is_seq2seq(model):
            generates_target = request.target is None and "decoder_input_ids" not in inputs
            inputs |= hf_inputs.target_of(model, inputs, tokenizer, request.target)
            context_notes |= hf_inputs.check(model, inputs, "decoder_")
            if generates_target and inputs["decoder_input_ids"].shape[1] > hf_inputs.target_limit(model, MAX_TARGET):
                cut = hf_inputs.target_limit(model, MAX_TARGET)
            if listener is not None:
                inputs |= _append_ids(
                    {key: value for key, value in inputs.items() if "decoder" in key}, listener.continuation
                )
        layout = None if listener is None or request.eager else _layout(model, inputs, tokenizer)
        if listener is not None and layout is not None:
            listener.on_start(*layout)
        parameters = inspect.signature(model.forward).parameters
        options: Inputs = {"return_dict": True}
        if "logits_to_keep" in parameters and not request.logits:
            options["logits_to_keep"] = 1  # the logits of a long text are larger than its trace
        if request.eager:
            from .hf_eager import weights_of

            recording, output = weights_of(
                model, inputs, options | ({"use_cache": False} if "use_cache" in parameters else {})
            )
        elif (
            layout is None
            and _can_run_in_chunks(model, inputs)
            and (chunked := _run_in_chunks(model, inputs["input_ids"], options))
        ):
            recording, output = chunked
        else:
            recording = ForwardRecording(model, "input_ids" in inputs)
            if listener is not None and layout is not None:
                recording.on_call = _layer_callback(model, listener)
            output = recording.run(inputs | options | ({"use_cache": False} if "use_cache" in parameters else {}))
    traced = _build_trace(model, recording, inputs, request, output)
    traced.more.update(context_notes)
    if cut is not None and "cross" in traced.calls:
        rows = traced.queries["decoder"]
        rows = [tokens.ahead(END if tokens.special[-1] else CUT) for tokens in rows]  # padding: it ended earlier
        traced = replace(traced, queries=traced.queries | {"cross": rows}, more=traced.more | {"cut": cut})
    if listener is not None:
        traced.more["states"] = recording.states
        if layout is None:
            listener.notify_all(traced)
    return traced


def _append_ids(inputs: Inputs, extra: tuple[int, ...]) -> Inputs:
    """Append these ids to every text."""
    if not extra:
        return inputs
    extended = dict(inputs)
    for key, fill in (("input_ids", extra), ("attention_mask", 1), ("token_type_ids", 0)):
        for name in (key, f"decoder_{key}"):
            if name in inputs:
                new = inputs[name].new_tensor([fill] * len(extra) if isinstance(fill, int) else fill)
                extended[name] = torch.cat([inputs[name], new.expand(len(inputs[name]), -1)], 1)
    return extended


def _layout(
    model: PretrainedModel, inputs: Inputs, tokenizer: AnyTokenizer
) -> tuple[dict[str, dict[int, int]], Sides, Sides] | None:
    """Return the heads of each layer and the tokens; None if they are unknown before the forward pass, or for chunks."""
    if "input_ids" not in inputs or any(hf_mixers.kernel_of(module) for module in model.modules()):
        return None
    if is_long(inputs["input_ids"].shape[1], streamed=True) and _can_run_in_chunks(model, inputs):
        return None
    try:
        heads = hf_attention.heads_of(model)
    except Problem:  # shared or unknown heads
        return None
    if "cross" in heads and not hf_inputs.is_seq2seq(model):
        return None
    return heads, *_tokens_by_part(model, inputs, tokenizer, {}, heads)


def _layer_callback(model: PretrainedModel, listener: TraceListener) -> Callable[[str, str, Call], None]:
    """Return a function that notifies the listener of a module's call, by the number of its layer."""
    numbers = {
        name: (part, i) for part, layers in hf_attention.stacks(model).items() for i, (name, _) in layers.items()
    }

    def on_call(part: str, name: str, call: Call) -> None:
        _, number = numbers.get(name, (part, 0))
        listener.notify(part, number, replace(call, name=f"{part}.{number}"))

    return on_call


def _check_arguments(model: PretrainedModel, inputs: Inputs) -> None:
    """Refuse inputs that the model doesn't take, or that lack a required one."""
    if (entry := hf_inputs.entry_point(model, inputs)) is not model:
        return
    parameters = inspect.signature(entry.forward).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    unknown = [
        key
        for key in inputs
        if key not in parameters and not (takes_any and key not in ("input_ids", model.main_input_name))
    ]
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    missing = [key for key in needed if key not in inputs]
    if unknown or missing:
        expected = all_of(missing or [model.main_input_name])
        raise Problem(
            "{model} was given {given} and needs {wanted}: give trace() a dict with what the model is called with",
            model=type(model).__name__,
            given=all_of(inputs),
            wanted=expected,
        )


def _can_run_in_chunks(model: PretrainedModel, inputs: Inputs) -> bool:
    """True for a single long text and a decoder whose only state is the keys and values of every layer."""
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    if "input_ids" not in inputs or hf_inputs.entry_point(model, inputs) is not model:
        return False
    count, n = inputs["input_ids"].shape
    mask = inputs.get("attention_mask")
    is_plain_text = inputs.keys() <= {"input_ids", "attention_mask"} and (mask is None or bool(mask.all()))
    parameters = inspect.signature(model.forward).parameters
    if count > 1 or not is_long(n) or not is_plain_text or not {"past_key_values", "use_cache"} <= parameters.keys():
        return False
    layers = hf_attention.stacks(model)
    if list(layers) != ["decoder"] or getattr(model, "_is_stateful", False):
        return False
    cache_layers = [type(layer) for layer in DynamicCache(config=model.config).layers]
    return len(cache_layers) == len(layers["decoder"]) and set(cache_layers) <= {
        DynamicLayer,
        DynamicSlidingWindowLayer,
    }


def _run_in_chunks(model: PretrainedModel, ids: Tensor, options: Inputs) -> tuple[ForwardRecording, Tensor] | None:
    """Run a text in chunks, as one forward pass of all; None if the chunks' masks or biases aren't rules of distances."""
    from transformers.cache_utils import DynamicCache

    n = ids.shape[1]
    cache = DynamicCache()  # without the config: caches of windows drop keys
    whole: list[Call | Mixing] = []
    chunk_masks, logits, chunk_states = [], [], []
    for span in chunks(n):
        recording = ForwardRecording(model)
        arguments = {"input_ids": ids[:, span], "past_key_values": cache, "use_cache": True}
        logits.append(recording.run(arguments | options))
        chunk_states.append(recording.states)
        calls = recording.calls.get("decoder", [])
        if any(call.bias is not None for call in calls) or {call.k.shape[2] for call in calls} != {span.stop}:
            return None
        for i, call in enumerate(calls):
            join_call(whole, i, call, span, n)
        chunk_masks.append((span, [call.mask for call in calls]))
    whole = [replace(call, mask=_bands(call.mask)) for call in whole if isinstance(call, Call)]
    for span, rules in chunk_masks:
        pairs = {(call.mask, rule) for call, rule in zip(whole, rules, strict=True)}
        if not all(_agrees(rule, part, span, n) for rule, part in pairs):
            return None
    recording.calls = {"decoder": whole}
    present = [states for states in chunk_states if states is not None]
    recording.states = torch.cat(present, 1) if len(present) == len(chunk_states) else None
    return recording, torch.cat(logits, 1)


def _bands(rule: Mask) -> Mask:
    """Return a mask's rules of distances; the padding of a last chunk may only be keys beyond its window."""
    bands = [term for term in rule.terms() if isinstance(term, Band)]
    return reduce(and_, bands, masks.full())


def _agrees(whole: Mask, part: Mask, span: slice, n: int, block: int = 256) -> bool:
    """True if the rule of the whole text equals a chunk's own rule on the chunk's queries."""
    size = span.stop - span.start
    for i in range(0, size, block):
        rows = slice(span.start + i, min(span.start + i + block, span.stop))
        expected = whole.tensor(n, n, rows=rows)
        actual = part.tensor(size, span.stop, rows=slice(i, i + block)).expand(-1, -1, -1, span.stop)
        if (
            not torch.equal(expected.expand(-1, -1, -1, n)[..., : span.stop], actual)
            or expected[..., span.stop :].any()
        ):
            return False
    return True


@dataclass(eq=False)
class ForwardRecording:
    """The calls of one forward pass, by part, and their modules."""

    model: PretrainedModel
    text: bool = True  # if there is a text, attention to images and audio is not recorded
    calls: dict[str, list[Call | Mixing]] = field(default_factory=dict)  # part → of each layer, `Mixing` in mixers
    names: dict[str, list[str]] = field(default_factory=dict)  # part → of each call, its module's name in the model
    outputs: dict[str, Projection] = field(default_factory=dict)
    rules: Rules = field(default_factory=dict)
    projections: dict[int, nn.Module] = field(default_factory=dict)  # id of an attention → its output projection
    pending: dict[int, tuple[str, Tensor]] = field(default_factory=dict)  # id of a projection → its expected input
    forward_calls: Counter[nn.Module] = field(default_factory=Counter)  # attention → its forward calls
    kernel_calls: Counter[nn.Module] = field(default_factory=Counter)  # attention → its kernel calls
    on_call: Callable[[str, str, Call], None] | None = None  # called with part, module's name, call
    states: Tensor | None = None  # (B, N, C): the final states, if the model returns them

    def run(self, inputs: Inputs) -> Any:
        """Call the model and return its logits, or its states if it has no logits."""
        mixing = hf_mixers.listen(self.model, self._on_mixing, all_modalities=not self.text)
        with (
            self.model.base_model.register_forward_hook(self._keep_states),
            hf_attention.observing_kernels(),
            self.listen(),
            mixing,
        ):
            output = hf_inputs.run(self.model, inputs)
        unobserved = sorted({type(module).__name__ for module in self.forward_calls if not self.kernel_calls[module]})
        if unobserved or not self.calls:
            raise hf_attention.untraceable(
                self.model,
                unobserved or [type(module).__name__ for _, module in hf_attention.attention_modules(self.model)],
            )
        repeated = next(
            (module for module, count in self.forward_calls.items() if self.kernel_calls[module] > count), None
        )
        if repeated is not None:  # it combines several maps (DiffLlama subtracts one)
            raise _not_plain_attention(repeated)
        logits = getattr(output, "logits", None)
        return output[0] if logits is None else logits

    def _keep_states(self, base: nn.Module, args: object, output: object) -> None:
        self.states = getattr(output, "last_hidden_state", None)

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Record the kernel calls of this thread inside the block."""
        names = {id(module): name for name, module in self.model.named_modules()}
        parents = {id(child): m for m in self.model.modules() for child in m.children()}
        with ExitStack() as stack:
            for _name, module in hf_attention.attention_modules(self.model, all_modalities=not self.text):
                hook = module.register_forward_pre_hook(lambda module, _: self.forward_calls.update([module]))
                stack.enter_context(hook)
                if (projection := _projection(module, parents.get(id(module)))) is not None:
                    self.projections[id(module)] = projection
                    stack.enter_context(projection.register_forward_pre_hook(self._projecting))
            stack.enter_context(
                hf_attention.subscribed(hf_attention.listeners, (self._on_call, names, threading.get_ident()))
            )
            stack.callback(self.rules.clear)
            stack.callback(self.pending.clear)
            yield

    def _on_call(self, name: str, module: Any, arguments: tuple[Any, ...], output: Tensor, final: Tensor) -> None:
        """Record a call: its arguments, the kernel's output, and the output after edits."""
        if self.text and hf_attention.OTHER_MODALITIES.search(name):
            return
        q, k, v, mask, options, implementation = arguments
        part = hf_attention.part_of(self.model, name, module)
        layers = self.calls.setdefault(part, [])
        call = hf_attention.call_of(module, q, k, v, mask, options, implementation, f"{part}.{len(layers)}", self.rules)
        if not hf_attention.reproduces(call, output):
            raise _not_plain_attention(module)
        layers.append(call)
        self.names.setdefault(part, []).append(name)
        self.kernel_calls[module] += 1
        assert call.name is not None
        if (projection := self.projections.get(id(module))) is not None:
            self.pending[id(projection)] = call.name, final[:, -1].flatten(1)
        if self.on_call is not None:
            self.on_call(part, name, call)

    def _on_mixing(self, name: str, call: Mixing) -> None:
        """Record the call of a mixer."""
        layers = self.calls.setdefault("mixers", [])
        layers.append(replace(call, name=f"mixers.{len(layers)}"))
        self.names.setdefault("mixers", []).append(name)

    def _projecting(self, projection: nn.Module, args: tuple[Tensor, ...]) -> None:
        """Record an output projection if it reads the heads' outputs unchanged, without a gate or a norm between."""
        name, expected = self.pending.pop(id(projection), ("", None))
        if expected is None or not isinstance(args[0], Tensor) or args[0].shape[-1] != expected.shape[-1]:
            return
        received = args[0].reshape(expected.shape[0], -1, expected.shape[-1])[:, -1]
        if torch.equal(received, expected):
            weight: Any = projection.weight
            self.outputs[name] = Projection(
                weight if isinstance(projection, nn.Linear) else weight.T, getattr(projection, "bias", None)
            )


def _not_plain_attention(module: nn.Module) -> Untraceable:
    return Untraceable(
        "{model} does more than softmax(q·k)·v with its q, k, v and mask, so maps computed from them would be "
        "wrong; for a short text there are the weights that the model gives itself, kept whole: --eager, or "
        "trace(…, eager=True)",
        model=type(module).__name__,
    )


def _projection(module: nn.Module, parent: nn.Module | None) -> nn.Module | None:
    """Return the linear layer after the heads: the module's own or, in BERT, its neighbour's."""
    for holder in (module, getattr(parent, "output", None)):
        for name in PROJECTIONS:
            layer = getattr(holder, name, None)
            if type(layer) is nn.Linear or type(layer).__name__ == "Conv1D":
                return layer
    return None


def _build_trace(
    model: PretrainedModel, recording: ForwardRecording, inputs: Inputs, request: TraceRequest, logits: Tensor
) -> Trace:
    parts = [part for part in PARTS if part in recording.calls]
    numbers = {part: hf_attention.layer_numbers(recording.names[part]) for part in parts}
    calls = {
        part: [replace(call, name=f"{part}.{i}") for i, call in zip(numbers[part], recording.calls[part], strict=True)]
        for part in parts
    }
    renamed = {f"{part}.{at}": f"{part}.{i}" for part in parts for at, i in enumerate(numbers[part])}
    outputs = {renamed[key]: value for key, value in recording.outputs.items()}
    partial_numbers = {part: layers for part, layers in numbers.items() if layers != tuple(range(len(layers)))}
    queries, keys = _sides(model, calls, inputs, request.tokenizer)
    main_part = "decoder" if parts[0] == "mixers" else parts[0]
    more: dict[str, object] = {"kind": "encoder-decoder" if hf_inputs.is_seq2seq(model) else main_part}
    if request.logits:
        more["logits"] = logits.float()
    # The last part of the path or repository that the model came from.
    name = request.name or PurePath(getattr(model.config, "name_or_path", "") or "").name or type(model).__name__
    return Trace(calls, queries, keys, name, request.text, outputs, more, numbers=partial_numbers)


def _sides(
    model: PretrainedModel, calls: dict[str, list[Call | Mixing]], inputs: Inputs, tokenizer: AnyTokenizer
) -> tuple[Sides, Sides]:
    """Return the tokens of queries and keys, by part. A call of another size is refused: its rows aren't these tokens but
    something else (pooled tokens, memories, two texts in one)."""
    queries, keys = _tokens_by_part(model, inputs, tokenizer, calls, calls)
    for part, layers in calls.items():
        expected = len(queries[part][0]), len(keys[part][0])
        for call in layers:
            if (shape := (call.q.shape[2], call.k.shape[2])) != expected or len(queries[part]) != call.q.shape[0]:
                texts = (call.q.shape[0], len(queries[part]))
                sizes = {"found": f"{shape[0]} × {shape[1]}", "wanted": f"{expected[0]} × {expected[1]}"}
                if texts[0] != texts[1]:  # TimeSformer looks along time and along each picture
                    sizes = {key: f"{n} × {size}" for n, (key, size) in zip(texts, sizes.items(), strict=True)}
                key = (
                    _(
                        "{model} can't be traced: {name} is {found} where the text is {wanted} (queries × keys), so its rows "
                        "and columns aren't these tokens; for the weights as the model gives them: --eager, or trace(…, "
                        "eager=True)"
                    )
                    if call.q.shape[3]
                    else _(
                        "{model} gives attention weights of the size {found} where {wanted} was expected, queries × keys: its "
                        "rows and columns aren't the tokens, so a map would be wrong"
                    )
                )
                raise Untraceable(key, model=type(model).__name__, name=call.name, **sizes)
    return queries, keys


def _tokens_by_part(
    model: PretrainedModel,
    inputs: Inputs,
    tokenizer: AnyTokenizer,
    calls: dict[str, list[Call | Mixing]],
    parts: Iterable[str],
) -> tuple[Sides, Sides]:
    """Return the tokens of queries and keys, by part; without a text (images, encoder states), the calls give the number."""
    source = hf_inputs.tokens_of(tokenizer, inputs) if "input_ids" in inputs else None
    if source is None:
        first = calls["encoder" if "encoder" in calls else next(iter(calls))][0]
        source = [hf_inputs.position_labels(model, inputs, first.k.shape[2])] * hf_inputs.batch_size(inputs)
    target, memory = source, source
    if hf_inputs.is_seq2seq(model):
        target = hf_inputs.tokens_of(tokenizer, inputs, "decoder_")
    elif "cross" in calls:  # encoder states without a text
        memory = [hf_inputs.position_labels(model, {}, calls["cross"][0].k.shape[2])] * len(source)
    ahead = [tokens.ahead() for tokens in target]
    return sides_of(parts, source, target, ahead, memory)
