"""A trace of a model of Hugging Face's `transformers`: what goes in, what was heard, what is kept.

No code here is about one architecture (hf_attention.py and hf_mixers.py say how they are heard), so nothing is taken on trust: that q, k, v
and the mask explain what the kernel gave is checked on two rows of every call, and that an output projection reads the
heads' outputs as they are, when it does.
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
from . import hf_mixers
from .chunking import chunks, is_long, join_call
from .hf_attention import (
    OTHER_SENSES,
    Inputs,
    PretrainedModel,
    Rules,
    Untraceable,
    attentions,
    call_of,
    explained,
    heads_of,
    hearing,
    listeners,
    numbered,
    part_of,
    stacks,
    subscribed,
    unheard,
)
from .hf_inputs import (
    check,
    entry,
    inputs_of,
    items,
    most_of,
    note_towers,
    places,
    resting,
    run,
    several,
    target_of,
    tokens_of,
)
from .model_protocol import MOST, TraceRequest, sides_of
from .tokenizer_protocol import AnyTokenizer

if TYPE_CHECKING:
    from .streaming import Follower, Sides

PROJECTIONS = ("o_proj", "out_proj", "c_proj", "dense", "o", "wo", "Wo", "out_lin")


def trace(model: PretrainedModel, request: TraceRequest) -> Trace:
    """What every attention of a model of `transformers` receives (the model itself).

    `request.given` may also be what a tokenizer of theirs makes, with `input_ids` and `attention_mask`: it goes to the model as
    it is; so do `pixel_values`, `input_features` and `input_values`. Batches of texts are padded by the tokenizer where
    it can, id lists of different lengths on the right. A long text goes through a decoder in chunks, where the library's
    own cache can keep all of its keys. `request.eager` keeps the weights that the model itself gives (eager.py).
    """
    tokenizer, follower = request.tokenizer, request.follower
    cut: int | None = None  # after so many tokens what the model says was cut off
    with resting(model):
        inputs = inputs_of(model, request.given, tokenizer)
        if follower is not None and not several(model):
            inputs = _longer(inputs, follower.more)
        _readable(model, inputs)
        note_towers(model, inputs)
        beyond = check(model, inputs)
        if several(model):
            own = request.target is None and "decoder_input_ids" not in inputs
            inputs |= target_of(model, inputs, tokenizer, request.target)
            beyond |= check(model, inputs, "decoder_")
            if own and inputs["decoder_input_ids"].shape[1] > most_of(model, MOST):
                cut = most_of(model, MOST)
            if follower is not None:
                inputs |= _longer({key: value for key, value in inputs.items() if "decoder" in key}, follower.more)
        early = None if follower is None or request.eager else _foreseen(model, inputs, tokenizer)
        if follower is not None and early is not None:
            follower.told(*early)
        taken = inspect.signature(model.forward).parameters
        options: Inputs = {"return_dict": True}
        if "logits_to_keep" in taken and not request.logits:
            options["logits_to_keep"] = 1  # a long text's logits are larger than all else that is kept
        if request.eager:
            from .hf_eager import weights_of

            heard, made = weights_of(model, inputs, options | ({"use_cache": False} if "use_cache" in taken else {}))
        elif early is None and _by_chunks(model, inputs) and (ran := _in_chunks(model, inputs["input_ids"], options)):
            heard, made = ran
        else:
            heard = Heard(model, "input_ids" in inputs)
            if follower is not None and early is not None:
                heard.follow = _following(model, follower)
            made = heard.run(inputs | options | ({"use_cache": False} if "use_cache" in taken else {}))
    found = _made(model, heard, inputs, request, made)
    found.more.update(beyond)
    if cut is not None and "cross" in found.calls:
        rows = found.queries["decoder"]
        rows = [tokens.ahead(END if tokens.special[-1] else CUT) for tokens in rows]  # padding: that one ended earlier
        found = replace(found, queries=found.queries | {"cross": rows}, more=found.more | {"cut": cut})
    if follower is not None:
        found.more["states"] = heard.states
        if early is None:
            follower.notify_late(found)
    return found


def _longer(inputs: Inputs, more: tuple[int, ...]) -> Inputs:
    """The same texts with these ids after each."""
    if not more:
        return inputs
    made = dict(inputs)
    for key, fill in (("input_ids", more), ("attention_mask", 1), ("token_type_ids", 0)):
        for name in (key, f"decoder_{key}"):
            if name in inputs:
                new = inputs[name].new_tensor([fill] * len(more) if isinstance(fill, int) else fill)
                made[name] = torch.cat([inputs[name], new.expand(len(inputs[name]), -1)], 1)
    return made


def _foreseen(
    model: PretrainedModel, inputs: Inputs, tokenizer: AnyTokenizer
) -> tuple[dict[str, dict[int, int]], Sides, Sides] | None:
    """The layers, their heads and the tokens, where they can be known before the model has run; None where they can't, or
    where the text is so long that it goes through in chunks."""
    if "input_ids" not in inputs or any(hf_mixers.kernel_of(module) for module in model.modules()):
        return None
    if is_long(inputs["input_ids"].shape[1], followed=True) and _by_chunks(model, inputs):
        return None
    try:
        heads = heads_of(model)
    except Problem:  # its heads aren't its own, or aren't known
        return None
    if "cross" in heads and not several(model):
        return None
    return heads, *_texts(model, inputs, tokenizer, {}, heads)


def _following(model: PretrainedModel, follower: Follower) -> Callable[[str, str, Call], None]:
    """Tells who follows of a module's call, by the number of its layer."""
    numbers = {name: (part, i) for part, layers in stacks(model).items() for i, (name, _) in layers.items()}

    def follow(part: str, name: str, call: Call) -> None:
        _, number = numbers.get(name, (part, 0))
        follower.notify(part, number, replace(call, name=f"{part}.{number}"))

    return follow


def _readable(model: PretrainedModel, inputs: Inputs) -> None:
    """Refuse what this model doesn't take, and name what it needs beside."""
    if (called := entry(model, inputs)) is not model:
        return
    taken = inspect.signature(called.forward).parameters
    loose = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    foreign = [
        key for key in inputs if key not in taken and not (loose and key not in ("input_ids", model.main_input_name))
    ]
    needed = [p.name for p in taken.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    missing = [key for key in needed if key not in inputs]
    if foreign or missing:
        wanted = all_of(missing or [model.main_input_name])
        raise Problem(
            "{model} was given {given} and needs {wanted}: give trace() a dict with what the model is called with",
            model=type(model).__name__,
            given=all_of(inputs),
            wanted=wanted,
        )


def _by_chunks(model: PretrainedModel, inputs: Inputs) -> bool:
    """Is this one long text for a decoder that remembers nothing but keys and values, those of every layer?"""
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    if "input_ids" not in inputs or entry(model, inputs) is not model:
        return False
    count, n = inputs["input_ids"].shape
    real = inputs.get("attention_mask")
    plain = inputs.keys() <= {"input_ids", "attention_mask"} and (real is None or bool(real.all()))
    taken = inspect.signature(model.forward).parameters
    if count > 1 or not is_long(n) or not plain or not {"past_key_values", "use_cache"} <= taken.keys():
        return False
    layers = stacks(model)
    if list(layers) != ["decoder"] or getattr(model, "_is_stateful", False):
        return False
    kept = [type(layer) for layer in DynamicCache(config=model.config).layers]
    return len(kept) == len(layers["decoder"]) and set(kept) <= {DynamicLayer, DynamicSlidingWindowLayer}


def _in_chunks(model: PretrainedModel, ids: Tensor, options: Inputs) -> tuple[Heard, Tensor] | None:
    """The same as one forward of the whole text; None where what the chunks hid or added is no rule of distances."""
    from transformers.cache_utils import DynamicCache

    n = ids.shape[1]
    cache = DynamicCache()  # not told of windows: those caches forget keys, which a trace keeps
    whole: list[Call | Mixing] = []
    hidden, logits, final = [], [], []
    for span in chunks(n):
        heard = Heard(model)
        given = {"input_ids": ids[:, span], "past_key_values": cache, "use_cache": True}
        logits.append(heard.run(given | options))
        final.append(heard.states)
        calls = heard.calls.get("decoder", [])
        if any(call.bias is not None for call in calls) or {call.k.shape[2] for call in calls} != {span.stop}:
            return None
        for i, call in enumerate(calls):
            join_call(whole, i, call, span, n)
        hidden.append((span, [call.mask for call in calls]))
    whole = [replace(call, mask=_bands(call.mask)) for call in whole if isinstance(call, Call)]
    for span, rules in hidden:
        pairs = {(call.mask, rule) for call, rule in zip(whole, rules, strict=True)}
        if not all(_agree(rule, part, span, n) for rule, part in pairs):
            return None
    heard.calls = {"decoder": whole}
    kept = [states for states in final if states is not None]
    heard.states = torch.cat(kept, 1) if len(kept) == len(final) else None
    return heard, torch.cat(logits, 1)


def _bands(rule: Mask) -> Mask:
    """What a mask says about distances. Keys that the last chunk doesn't reach look like padding to it, and aren't."""
    bands = [term for term in rule.terms() if isinstance(term, Band)]
    return reduce(and_, bands, masks.full())


def _agree(whole: Mask, part: Mask, span: slice, n: int, block: int = 256) -> bool:
    """Does the rule of the whole text hide from these queries just what the chunk's own rule hid from them?"""
    size = span.stop - span.start
    for i in range(0, size, block):
        rows = slice(span.start + i, min(span.start + i + block, span.stop))
        mine = whole.tensor(n, n, rows=rows)
        own = part.tensor(size, span.stop, rows=slice(i, i + block)).expand(-1, -1, -1, span.stop)
        if not torch.equal(mine.expand(-1, -1, -1, n)[..., : span.stop], own) or mine[..., span.stop :].any():
            return False
    return True


@dataclass(eq=False)
class Heard:
    """The calls of one forward, by part, and the modules that made them."""

    model: PretrainedModel
    text: bool = True  # what it reads; attention to pictures and sound beside a text is left out
    calls: dict[str, list[Call | Mixing]] = field(default_factory=dict)  # part → of each layer, `Mixing` in mixers
    names: dict[str, list[str]] = field(default_factory=dict)  # part → of each call, its module's name in the model
    outputs: dict[str, Projection] = field(default_factory=dict)
    rules: Rules = field(default_factory=dict)
    projections: dict[int, nn.Module] = field(default_factory=dict)  # an attention → its output projection
    waiting: dict[int, tuple[str, Tensor]] = field(default_factory=dict)  # a projection → what it should receive
    entered: Counter[nn.Module] = field(default_factory=Counter)  # attentions, by how often they ran
    heard: Counter[nn.Module] = field(default_factory=Counter)  # and how often they asked for a kernel
    follow: Callable[[str, str, Call], None] | None = None  # is told of every call at once: part, module's name, call
    states: Tensor | None = None  # (B, N, C): what the model's head reads, where it says so

    def run(self, inputs: Inputs) -> Any:
        """The model's forward, heard; gives its logits, or its states where it has none."""
        mixing = hf_mixers.listen(self.model, self._on_mixing, all_senses=not self.text)
        with self.model.base_model.register_forward_hook(self._keep_states), hearing(), self.listen(), mixing:
            made = run(self.model, inputs)
        silent = sorted({type(module).__name__ for module in self.entered if not self.heard[module]})
        if silent or not self.calls:
            raise unheard(self.model, silent or [type(module).__name__ for _, module in attentions(self.model)])
        twice = next((module for module, count in self.entered.items() if self.heard[module] > count), None)
        if twice is not None:  # what it does with several maps is its own affair (DiffLlama subtracts one)
            raise _does_more(twice)
        found = getattr(made, "logits", None)
        return made[0] if found is None else found

    def _keep_states(self, base: nn.Module, given: object, made: object) -> None:
        self.states = getattr(made, "last_hidden_state", None)

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Collect what this thread's forward hands over."""
        names = {id(module): name for name, module in self.model.named_modules()}
        parents = {id(child): m for m in self.model.modules() for child in m.children()}
        with ExitStack() as stack:
            for _name, module in attentions(self.model, all_senses=not self.text):
                hook = module.register_forward_pre_hook(lambda module, _: self.entered.update([module]))
                stack.enter_context(hook)
                if (found := _projection(module, parents.get(id(module)))) is not None:
                    self.projections[id(module)] = found
                    stack.enter_context(found.register_forward_pre_hook(self._projecting))
            stack.enter_context(subscribed(listeners, (self._on_call, names, threading.get_ident())))
            stack.callback(self.rules.clear)
            stack.callback(self.waiting.clear)
            yield

    def _on_call(self, name: str, module: Any, handed: tuple[Any, ...], output: Tensor, given: Tensor) -> None:
        """One call: what it was handed, what the kernel made of it, and what the model goes on with (edited or not)."""
        if self.text and OTHER_SENSES.search(name):
            return
        q, k, v, mask, options, own = handed
        part = part_of(self.model, name, module)
        layers = self.calls.setdefault(part, [])
        call = call_of(module, q, k, v, mask, options, own, f"{part}.{len(layers)}", self.rules)
        if not explained(call, output):
            raise _does_more(module)
        layers.append(call)
        self.names.setdefault(part, []).append(name)
        self.heard[module] += 1
        assert call.name is not None
        if (projection := self.projections.get(id(module))) is not None:
            self.waiting[id(projection)] = call.name, given[:, -1].flatten(1)
        if self.follow is not None:
            self.follow(part, name, call)

    def _on_mixing(self, name: str, call: Mixing) -> None:
        """One mixing, of a layer that keeps a state."""
        layers = self.calls.setdefault("mixers", [])
        layers.append(replace(call, name=f"mixers.{len(layers)}"))
        self.names.setdefault("mixers", []).append(name)

    def _projecting(self, projection: nn.Module, given: tuple[Tensor, ...]) -> None:
        """An output projection is kept only if it reads the heads' outputs as they are: no gate, no norm between."""
        name, last = self.waiting.pop(id(projection), ("", None))
        if last is None or not isinstance(given[0], Tensor) or given[0].shape[-1] != last.shape[-1]:
            return
        came = given[0].reshape(last.shape[0], -1, last.shape[-1])[:, -1]
        if torch.equal(came, last):
            weight: Any = projection.weight
            self.outputs[name] = Projection(
                weight if isinstance(projection, nn.Linear) else weight.T, getattr(projection, "bias", None)
            )


def _does_more(module: nn.Module) -> Untraceable:
    return Untraceable(
        "{model} does more than softmax(q·k)·v with its q, k, v and mask, so maps computed from them would be "
        "wrong; for a short text there are the weights that the model gives itself, kept whole: --eager, or "
        "trace(…, eager=True)",
        model=type(module).__name__,
    )


def _projection(module: nn.Module, parent: nn.Module | None) -> nn.Module | None:
    """The linear layer behind the heads: the module's own, or as BERT has it, its neighbour's."""
    for holder in (module, getattr(parent, "output", None)):
        for what in PROJECTIONS:
            found = getattr(holder, what, None)
            if type(found) is nn.Linear or type(found).__name__ == "Conv1D":
                return found
    return None


def _made(model: PretrainedModel, heard: Heard, inputs: Inputs, request: TraceRequest, logits: Tensor) -> Trace:
    parts = [part for part in PARTS if part in heard.calls]
    numbers = {part: numbered(heard.names[part]) for part in parts}
    calls = {
        part: [replace(call, name=f"{part}.{i}") for i, call in zip(numbers[part], heard.calls[part], strict=True)]
        for part in parts
    }
    renamed = {f"{part}.{at}": f"{part}.{i}" for part in parts for at, i in enumerate(numbers[part])}
    outputs = {renamed[key]: value for key, value in heard.outputs.items()}
    counted = {part: layers for part, layers in numbers.items() if layers != tuple(range(len(layers)))}
    queries, keys = _sides(model, calls, inputs, request.tokenizer)
    alone = "decoder" if parts[0] == "mixers" else parts[0]
    more: dict[str, object] = {"kind": "encoder-decoder" if several(model) else alone}
    if request.logits:
        more["logits"] = logits.float()
    # What people call the model: the last word of where it came from.
    name = request.name or PurePath(getattr(model.config, "name_or_path", "") or "").name or type(model).__name__
    return Trace(calls, queries, keys, name, request.text, outputs, more, numbers=counted)


def _sides(
    model: PretrainedModel, calls: dict[str, list[Call | Mixing]], inputs: Inputs, tokenizer: AnyTokenizer
) -> tuple[Sides, Sides]:
    """The tokens that ask and those that are looked at, by part. A call of another size than they are is refused: whatever
    its rows stand for (pooled tokens, memories, two texts in one), it isn't these."""
    queries, keys = _texts(model, inputs, tokenizer, calls, calls)
    for part, layers in calls.items():
        wanted = len(queries[part][0]), len(keys[part][0])
        for call in layers:
            if (found := (call.q.shape[2], call.k.shape[2])) != wanted or len(queries[part]) != call.q.shape[0]:
                texts = (call.q.shape[0], len(queries[part]))
                sizes = {"found": f"{found[0]} × {found[1]}", "wanted": f"{wanted[0]} × {wanted[1]}"}
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


def _texts(
    model: PretrainedModel,
    inputs: Inputs,
    tokenizer: AnyTokenizer,
    calls: dict[str, list[Call | Mixing]],
    parts: Iterable[str],
) -> tuple[Sides, Sides]:
    """The tokens on both sides of these parts; what has no words (pictures, a memory from elsewhere) is as long as its
    calls say."""
    source = tokens_of(tokenizer, inputs) if "input_ids" in inputs else None
    if source is None:
        first = calls["encoder" if "encoder" in calls else next(iter(calls))][0]
        source = [places(model, inputs, first.k.shape[2])] * items(inputs)
    answer, memory = source, source
    if several(model):
        answer = tokens_of(tokenizer, inputs, "decoder_")
    elif "cross" in calls:  # to states that came from elsewhere: they have no words
        memory = [places(model, {}, calls["cross"][0].k.shape[2])] * len(source)
    ahead = [tokens.ahead() for tokens in answer]
    return sides_of(parts, source, answer, ahead, memory)
