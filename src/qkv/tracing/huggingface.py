"""A trace of a model of Hugging Face's `transformers`: what goes in, what was heard, what is kept.

No code here is about one architecture (registry.py says how they are heard), so nothing is taken on trust: that q, k, v
and the mask explain what the kernel gave is checked on two rows of every call, and that an output projection reads the
heads' outputs as they are, when it does.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor, nn

from ..attention import masks
from ..attention.attend import Call
from ..attention.rules import Band, Mask
from ..words import Problem, all_of
from .registry import (
    OTHER_SENSES,
    Inputs,
    Rules,
    attentions,
    call_of,
    explained,
    hearing,
    known,
    listeners,
    part_of,
    stacks,
)
from .tokens import CUT, END, Tokens, read
from .trace import PARTS, Projection, Trace

MOST = 128  # tokens that an encoder-decoder may say where nobody gave a target
POSITIONS = re.compile(r"(wpe|embed_positions|position_embeddings?)$")
PROJECTIONS = ("o_proj", "out_proj", "c_proj", "dense", "o", "wo", "Wo", "out_lin")


def trace(
    model: Any,
    given: Any,
    tokenizer: Any = None,
    *,
    target: Any = None,
    logits: bool = False,
    name: str = "",
) -> Trace:
    """What every attention of a model of `transformers` receives; arguments as in `qkv.trace`.

    `given` may also be what a tokenizer of theirs makes, with `input_ids` and `attention_mask`: it goes to the model as
    it is. Batches of texts are padded by the tokenizer where it can, id lists of different lengths on the right. A long
    text goes through a decoder in chunks, where the library's own cache can keep all of its keys.
    """
    model = known(model)
    text = given if isinstance(given, str) else ""
    cut: int | None = None  # after so many tokens what the model says was cut off
    with resting(model):
        inputs = inputs_of(model, given, tokenizer)
        _check(model, inputs)
        if model.config.is_encoder_decoder:
            own = target is None and "decoder_input_ids" not in inputs
            inputs |= target_of(model, inputs, tokenizer, target)
            _check(model, inputs, "decoder_")
            if own and inputs["decoder_input_ids"].shape[1] > _most(model, MOST):
                cut = _most(model, MOST)
        taken = inspect.signature(model.forward).parameters
        options: Inputs = {"return_dict": True}
        if "logits_to_keep" in taken and not logits:
            options["logits_to_keep"] = 1  # a long text's logits are larger than all else that is kept
        ran = _in_chunks(model, inputs["input_ids"], options) if _by_chunks(model, inputs) else None
        if ran is None:
            heard = _Heard(model)
            ran = heard, heard.run(inputs | options | ({"use_cache": False} if "use_cache" in taken else {}))
    heard, made = ran
    found = _made(model, heard, inputs, tokenizer, made if logits else None, name or _name(model), text)
    if cut is None:
        return found
    rows = found.queries["decoder"]
    rows = [tokens.ahead(END if tokens.special[-1] else CUT) for tokens in rows]  # padding: that one ended earlier
    return replace(found, queries=found.queries | {"cross": rows}, more=found.more | {"cut": cut})


def _by_chunks(model: Any, inputs: Inputs) -> bool:
    """Is this one long text for a decoder that remembers nothing but keys and values, those of every layer?"""
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    from .recorder import CHUNK

    items, n = inputs["input_ids"].shape
    real = inputs.get("attention_mask")
    plain = inputs.keys() <= {"input_ids", "attention_mask"} and (real is None or bool(real.all()))
    taken = inspect.signature(model.forward).parameters
    if items > 1 or n <= CHUNK or not plain or not {"past_key_values", "use_cache"} <= taken.keys():
        return False
    layers = stacks(model)
    if list(layers) != ["decoder"] or model._is_stateful:
        return False
    kept = [type(layer) for layer in DynamicCache(config=model.config).layers]
    return len(kept) == len(layers["decoder"]) and set(kept) <= {DynamicLayer, DynamicSlidingWindowLayer}


def _in_chunks(model: Any, ids: Tensor, options: Inputs) -> tuple[_Heard, Tensor] | None:
    """The same as one forward of the whole text; None where what the chunks hid or added is no rule of distances."""
    from transformers.cache_utils import DynamicCache

    from .recorder import chunks, join_calls

    n = ids.shape[1]
    cache = DynamicCache()  # not told of windows: those caches forget keys, which a trace keeps
    whole: list[Call] = []
    hidden, logits = [], []
    for span in chunks(n):
        heard = _Heard(model)
        given = {"input_ids": ids[:, span], "past_key_values": cache, "use_cache": True}
        logits.append(heard.run(given | options))
        calls = heard.calls.get("decoder", [])
        if any(call.bias is not None for call in calls) or {call.k.shape[2] for call in calls} != {span.stop}:
            return None
        join_calls(whole, calls, span, n)
        hidden.append((span, [call.mask for call in calls]))
    whole = [replace(call, mask=_bands(call.mask)) for call in whole]
    for span, rules in hidden:
        pairs = {(call.mask, rule) for call, rule in zip(whole, rules, strict=True)}
        if not all(_agree(rule, part, span, n) for rule, part in pairs):
            return None
    heard.calls = {"decoder": whole}
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


def _name(model: Any) -> str:
    """What people call the model: the last word of where it came from."""
    return PurePath(getattr(model.config, "name_or_path", "") or "").name or type(model).__name__


@dataclass(eq=False)
class _Heard:
    """The calls of one forward, by part, and the modules that made them."""

    model: Any
    calls: dict[str, list[Call]] = field(default_factory=dict)
    modules: dict[str, nn.Module] = field(default_factory=dict)  # "decoder.13" → its module
    outputs: dict[str, Projection] = field(default_factory=dict)
    rules: Rules = field(default_factory=dict)
    projections: dict[int, Any] = field(default_factory=dict)  # an attention → its output projection
    waiting: dict[int, tuple[str, Tensor]] = field(default_factory=dict)  # a projection → what it should receive

    def run(self, inputs: Inputs) -> Any:
        """The model's forward, heard; gives its logits, or its states where it has none."""
        with hearing(self.model), self.listening():
            made = self.model(**inputs)
        found = getattr(made, "logits", None)
        return made[0] if found is None else found

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Collect what this thread's forward hands over."""
        names = {id(module): name for name, module in self.model.named_modules()}
        parents = {id(child): m for m in self.model.modules() for child in m.children()}
        listener = (self._hear, names, threading.get_ident())
        hooks = []
        for _, module in attentions(self.model):
            if (found := _projection(module, parents.get(id(module)))) is not None:
                self.projections[id(module)] = found
                hooks.append(found.register_forward_pre_hook(self._projecting))
        listeners.append(listener)
        try:
            yield
        finally:
            listeners[:] = [kept for kept in listeners if kept is not listener]
            for hook in hooks:
                hook.remove()
            self.rules.clear()
            self.waiting.clear()

    def _hear(self, name: str, module: Any, handed: tuple[Any, ...], output: Tensor, given: Tensor) -> None:
        """One call: what it was handed, what the kernel made of it, and what the model goes on with (edited or not)."""
        if OTHER_SENSES.search(name):
            return
        q, k, v, mask, options, own = handed
        part = part_of(self.model, name, module)
        layers = self.calls.setdefault(part, [])
        call = call_of(module, q, k, v, mask, options, own, f"{part}.{len(layers)}", self.rules)
        if not explained(call, output):
            raise Problem("trace.other", model=type(module).__name__)
        layers.append(call)
        assert call.name is not None
        self.modules[call.name] = module
        if (projection := self.projections.get(id(module))) is not None:
            self.waiting[id(projection)] = call.name, given[:, -1].flatten(1)

    def _projecting(self, projection: nn.Module, given: tuple[Any, ...]) -> None:
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


def _projection(module: Any, parent: Any) -> Any:
    """The linear layer behind the heads: the module's own, or as BERT has it, its neighbour's."""
    for holder in (module, getattr(parent, "output", None)):
        for what in PROJECTIONS:
            found = getattr(holder, what, None)
            if type(found) is nn.Linear or type(found).__name__ == "Conv1D":
                return found
    return None


@contextmanager
def resting(model: Any) -> Iterator[None]:
    """No gradients and no dropout inside; each module trains afterwards if it did before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def inputs_of(model: Any, given: Any, tokenizer: Any) -> Inputs:
    """What the model is called with."""
    if isinstance(given, Mapping) or hasattr(given, "input_ids"):
        return _as_given(model, dict(given))
    theirs = tokenizer is not None and not hasattr(tokenizer, "token_bytes")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Tensor) and len(texts) and isinstance(texts[0], str) and theirs:
        pads = getattr(tokenizer, "pad_token_id", None) is not None
        made = dict(tokenizer(list(texts), padding=pads and len(texts) > 1))
        made = {key: made[key] for key in ("input_ids", "attention_mask", "token_type_ids") if key in made}
        if not all(made["input_ids"]):
            raise Problem("problem.empty")
        if not pads:
            return _rows(model, made["input_ids"])
        inputs = _as_given(model, made)
        taken = inspect.signature(model.forward).parameters
        real = inputs.get("attention_mask")
        if real is not None and bool(real.all()):
            inputs.pop("attention_mask")
        elif real is not None and not bool(real[:, 0].all()) and "position_ids" in taken and model.can_generate():
            # Padded on the left, a text begins at 0 all the same, as it does when it is alone.
            inputs["position_ids"] = (real.cumsum(-1) - 1).clamp(min=0)
        return {key: value for key, value in inputs.items() if key in taken}
    from .recorder import ids_of

    rows = ids_of(given, tokenizer)
    if model.config.is_encoder_decoder and getattr(tokenizer, "eos", None) is not None:
        rows = [row if row[-1] == tokenizer.eos else [*row, tokenizer.eos] for row in rows]
    return _rows(model, rows)


def _as_given(model: Any, given: Inputs) -> Inputs:
    """A tokenizer's result: tensors, on the model's device; lists of different lengths are padded."""
    if isinstance(ids := given.get("input_ids"), list) and len({len(row) for row in ids}) > 1:
        return _rows(model, ids)
    if ids is None:
        raise Problem("trace.inputs", keys=all_of(given) if given else "{}")
    made = {key: value if isinstance(value, Tensor) else torch.as_tensor(value) for key, value in given.items()}
    if made["input_ids"].numel() == 0:
        raise Problem("problem.empty")
    return {key: value.to(model.device) for key, value in made.items()}


def _rows(model: Any, rows: Sequence[Sequence[int]], prefix: str = "") -> Inputs:
    """Lists of ids as a batch, padded on the right; a mask only if it says something."""
    pad = getattr(model.config, "pad_token_id", None)
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0 if pad is None else pad] * (longest - len(row))] for row in rows])
    made = {f"{prefix}input_ids": ids.to(model.device)}
    if len({len(row) for row in rows}) > 1:
        real = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        made[f"{prefix}attention_mask"] = real.to(model.device)
    return made


def target_of(model: Any, inputs: Inputs, tokenizer: Any, target: Any) -> Inputs:
    """The decoder's side: the target given, or what the model says, its start token first and without its end."""
    if "decoder_input_ids" in inputs:
        return {}
    if target is None:
        return _rows(model, said(model, inputs, tokenizer), "decoder_")
    if isinstance(target, Tensor):
        target = target.tolist()
    texts: Any = [target] if isinstance(target, str) or isinstance(target[0], int) else list(target)
    rows = [_encoded(tokenizer, row) if isinstance(row, str) else list(row) for row in texts]
    if len(rows) != len(inputs["input_ids"]):
        raise Problem("trace.targets", sources=len(inputs["input_ids"]), targets=len(rows))
    roles = (_role(model, f"{what}_token_id") for what in ("decoder_start", "bos", "pad"))
    start = next((i for i in roles if i is not None), 0)
    rows = [row if row[:1] == [start] else [start, *row] for row in rows]
    return _rows(model, [_until_the_end(model, row, tokenizer) for row in rows], "decoder_")


def said(model: Any, inputs: Inputs, tokenizer: Any = None, most: int = MOST, **options: Any) -> list[list[int]]:
    """What an encoder-decoder says of its own accord, greedily: token ids, its start token first and without its end."""
    if not model.can_generate():
        raise Problem("trace.target", model=type(model).__name__)
    ids = inputs["input_ids"]
    real = inputs.get("attention_mask")
    with resting(model):
        made = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids) if real is None else real,
            do_sample=False,
            num_beams=1,
            max_new_tokens=_most(model, most),
            **options,
        )
    return [_until_the_end(model, row, tokenizer) for row in made.tolist()]


def _most(model: Any, most: int) -> int:
    """So many tokens, or as many as there are positions after the start."""
    return min(most, (getattr(model.config, "max_position_embeddings", None) or most + 1) - 1)


def _role(model: Any, what: str) -> Any:
    found = getattr(getattr(model, "generation_config", None), what, None)
    return getattr(model.config, what, None) if found is None else found


def _until_the_end(model: Any, row: list[int], tokenizer: Any) -> list[int]:
    """A decoder's row up to where it ends; its first token may be the same one (BART begins with its end)."""
    ends = _role(model, "eos_token_id")
    ends = {*(ends if isinstance(ends, list) else [ends]), getattr(tokenizer, "eos_token_id", None)}
    return row[: next((i for i in range(1, len(row)) if row[i] in ends), len(row))]


def _encoded(tokenizer: Any, text: str) -> list[int]:
    if tokenizer is None:
        raise Problem("trace.tokenizer")
    if hasattr(tokenizer, "token_bytes"):
        return list(tokenizer.encode(text))
    return list(tokenizer(text_target=text)["input_ids"])


def _check(model: Any, inputs: Inputs, prefix: str = "") -> None:
    """Refuse tokens that aren't in the vocabulary, and more of them than there are learned positions."""
    from ..model.reading import as_rows

    ids = inputs[f"{prefix}input_ids"]
    vocabulary = getattr(model.get_input_embeddings(), "num_embeddings", None)
    as_rows("prompt" if prefix else "source", ids, int(ids.max()) + 1 if vocabulary is None else vocabulary)
    rooms = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and POSITIONS.search(name) and not OTHER_SENSES.search(name):
            before = getattr(module, "offset", 0) or (0 if module.padding_idx is None else module.padding_idx + 1)
            rooms.append(module.num_embeddings - before)
    if rooms and ids.shape[1] > min(rooms):
        raise Problem("trace.context", tokens=ids.shape[1], context=min(rooms))


def _made(model: Any, heard: _Heard, inputs: Inputs, tokenizer: Any, made: Any, name: str, text: str) -> Trace:
    called = {id(module) for module in heard.modules.values()}
    several = model.config.is_encoder_decoder
    wanted = [layers for part, layers in stacks(model).items() if several or part != "cross"]
    silent = sorted({type(m).__name__ for layers in wanted for _, m in layers if id(m) not in called})
    if silent or not heard.calls:
        raise Problem("trace.registry", model=type(model).__name__, classes=all_of(silent or [type(model).__name__]))
    source = _tokens(tokenizer, inputs, "")
    answer = _tokens(tokenizer, inputs, "decoder_") if several else source
    sides = {
        "encoder": (source, source),
        "decoder": (answer, answer),
        "cross": ([tokens.ahead() for tokens in answer], source),
    }
    parts = [part for part in PARTS if part in heard.calls]
    queries, keys = ({part: sides[part][side] for part in parts} for side in (0, 1))
    more: dict[str, Any] = {"kind": "encoder-decoder" if several else parts[0]}
    if made is not None:
        more["logits"] = made.float()
    calls = {part: heard.calls[part] for part in parts}
    return Trace(calls, queries, keys, name, text, heard.outputs, more)


def _tokens(tokenizer: Any, inputs: Inputs, prefix: str) -> list[Tokens]:
    """Labels of every row; padding, on whichever side, is special."""
    ids = inputs[f"{prefix}input_ids"].tolist()
    real = inputs.get(f"{prefix}attention_mask")
    marks = [[True] * len(row) for row in ids] if real is None or real.ndim != 2 else (real > 0).tolist()
    made = []
    for row, mark in zip(ids, marks, strict=True):
        places = [i for i, here in enumerate(mark) if here]
        tokens = read(tokenizer, [row[i] for i in places])
        pieces, special = ["[PAD]"] * len(row), [True] * len(row)
        for i, piece, is_special in zip(places, tokens.pieces, tokens.special, strict=True):
            pieces[i], special[i] = piece, is_special
        whole = [(label, places[first], places[end - 1] + 1) for label, first, end in tokens.whole]
        whole += [("[PAD]", i, i + 1) for i, here in enumerate(mark) if not here]
        whole.sort(key=lambda group: group[1])
        made.append(Tokens(tuple(pieces), tuple(special), tuple(row), tuple(whole)))
    return made
