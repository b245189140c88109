"""Tracing of qkv's own `Transformer`: an implementation of the protocol in model_protocol.py.

B batch, N tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...attention import masks
from ...attention.cache import KVCache, WindowCache
from ...attention.dispatch import Call, listen
from ...attention.positions import ALiBi, Relative, Rotary
from ...generation.decoding import translate_ids
from ...generation.prefill import as_rows, note_context, pad, quiet, wordless
from ...i18n import Problem
from ...mixers.calls import Mixing
from ...model.experts import Routing, record_routing
from ...model.layers import Block, StateMixer
from ..views.token_labels import CUT, END, PARTS, Tokens
from ..views.traces import Projection, Trace, Turning
from .chunking import chunks, is_long, join_call
from .model_protocol import MAX_TARGET, Layer, PreparedText, TextInput, TraceRequest, sides_of, targets_of, too_long
from .tokenizer_protocol import AnyTokenizer, Inputs, Rows, ids_of, padded, reader_of

if TYPE_CHECKING:
    from ...model.transformer import Transformer
    from .streaming import Sides, TraceListener


class NativeModel:
    """Adapter for a `Transformer`."""

    has_static_layers = True

    def __init__(self, model: Transformer) -> None:
        self.model, self.config = model, model.config
        self.kind, self.context = model.config.kind, model.config.context

    def heads(self) -> dict[str, dict[int, int]]:
        """Return the number of heads of each layer; layers with a state are the part mixers."""
        sides = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        if self.kind == "encoder-decoder":
            sides["cross"] = self.model.decoder
        heads: dict[str, dict[int, int]] = {part: {} for part in PARTS}
        for part, blocks in sides.items():
            for i, block in enumerate(_blocks(blocks)):
                mixer = part == "decoder" and isinstance(block.attention, StateMixer)
                n_head = block.attention.n_head
                assert isinstance(n_head, int)
                heads["mixers" if mixer else part][i] = n_head
        return {part: layers for part, layers in heads.items() if layers}

    def trace(self, request: TraceRequest) -> Trace:
        """Trace the model; `request.eager` changes nothing, since native models can always be observed."""
        tokenizer, target, listener = request.tokenizer, request.target, request.listener
        model, is_seq2seq = self.model, self.kind == "encoder-decoder"
        rows = self._rows(request.source, tokenizer)
        if listener is not None and not is_seq2seq:  # else the continuation follows the target
            rows = [[*row, *listener.continuation] for row in rows]
        rows = as_rows("source", rows, self.config.read_vocab)
        longest = max(map(len, rows))
        if self.config.position == "learned" and longest > self.config.context:
            raise too_long(longest, self.config.context)
        context_notes = note_context(longest, self.config.context)
        with torch.no_grad():
            with quiet(model):
                targets = _target_rows(model, rows, tokenizer, target) if is_seq2seq else rows
            cut = _cut_length(model, targets) if is_seq2seq and target is None else None
            if is_seq2seq and listener is not None:
                targets = [[*row, *listener.continuation] for row in targets]
            queries, keys = self._sides(rows, targets, tokenizer, cut)
            if listener is not None:
                listener.on_start(self.heads(), queries, keys)
            recording = _Recording(model, rows, targets, listener)
            with quiet(model), record_routing() as routings:
                states = recording.states()
            layers, numbers = _group(recording.calls)
            more: dict[str, object] = {"position": self.config.position, "kind": self.kind}
            more |= {} if cut is None else {"cut": cut}
            if listener is not None:
                more["states"] = states
            if recording.residuals:
                more["residuals"] = torch.stack(recording.residuals)
            if request.logits:
                more["logits"] = model.head(states).float()
            turning = _rotary_turning(model, max(map(len, targets)))
            outputs, routing = _outputs(model), _join_routing(routings)
            name, text = request.name, request.text
            return Trace(layers, queries, keys, name, text, outputs, more | context_notes, turning, numbers, routing)

    def _sides(self, rows: Rows, targets: Rows, tokenizer: AnyTokenizer, cut: int | None) -> tuple[Sides, Sides]:
        """Return the tokens of queries and keys, by part; generation was cut off after `cut` tokens, if not None."""
        source = _tokens(tokenizer, rows)
        target = source if targets is rows else _tokens(tokenizer, targets)
        ahead = target
        if target is not source:
            # The longest row of a batch is the one that was cut.
            longest = max(map(len, targets))
            ends = [CUT if cut is not None and len(row) == longest else END for row in targets]
            ahead = [tokens.ahead(end) for tokens, end in zip(target, ends, strict=True)]
        return sides_of(self.heads(), source, target, ahead, source)

    def prepare(
        self, source: TextInput | Inputs, tokenizer: AnyTokenizer, target: TextInput | None = None
    ) -> PreparedText:
        """Return the padded token ids of texts, and a function that runs the model on such ids and returns logits.

        For an encoder-decoder the ids are those of `target`, or of the model's own translation; the source is fixed.
        """
        model = self.model
        device = model.embedding.weight.device
        rows = self._rows(source, tokenizer)
        note_context(max(map(len, rows)), self.config.context)
        ids, lengths = pad(rows, device)
        rule = None if len({len(row) for row in rows}) == 1 else masks.padding(lengths)
        source_ids: Tensor | None = None
        source_rule: masks.Mask | None = None
        if self.kind == "encoder-decoder":
            source_ids, source_rule = ids, rule
            ids, lengths = pad(_target_rows(model, rows, tokenizer, target), device)
            rule = masks.padding(lengths)

        def run(ids: Tensor) -> Tensor:
            with quiet(model):
                logits = model(ids, source_ids, mask=rule, source_mask=source_rule)
            if logits.shape[-1] != self.config.vocab or not self.config.predicts_words:
                raise wordless(model)
            return logits.float()

        return PreparedText(run, ids, torch.arange(ids.shape[1], device=device) < lengths[:, None])

    def translate(self, text: str, tokenizer: Any, *, cache: bool = True) -> str:
        """Translate as `qkv translate` with one beam."""
        rows = self._rows(text, tokenizer)
        return tokenizer.decode(translate_ids(self.model, tokenizer, rows, width=1, most=MAX_TARGET, cache=cache)[0])

    @contextmanager
    def editing(self, layers: Iterable[Layer]) -> Iterator[Mapping[Layer, str]]:
        """Give the names of these layers, which are the same for every native model."""
        yield {(part, layer): f"{'decoder' if part == 'mixers' else part}.{layer}" for part, layer in layers}

    def _rows(self, source: TextInput | Inputs, tokenizer: AnyTokenizer) -> Rows:
        """Return token ids; those of an encoder-decoder end with the end token."""
        rows = ids_of(source, tokenizer)
        return reader_of(tokenizer).source(rows) if self.kind == "encoder-decoder" else rows


class _Recording:
    """A recorded forward pass: the calls of every layer, and the residual stream on request."""

    def __init__(self, model: Transformer, rows: Rows, targets: Rows, listener: TraceListener | None) -> None:
        self.model, self.rows, self.targets, self.listener = model, rows, targets, listener
        self.calls: list[Call | Mixing] = []
        self.residuals: list[Tensor] = []  # (C,) after every block, at the requested token

    def states(self) -> Tensor:
        """Run the model and return its final states: the logits of a long text would be larger than its trace."""
        model, kind = self.model, self.model.config.kind
        ids, mask = self._padded(self.rows)
        long = is_long(ids.shape[1], streamed=self.listener is not None)
        if kind == "decoder" and len(self.rows) == 1 and long and not model.grows(ids.shape[1]):
            return self._in_chunks(ids)
        n = len(self.targets[0])
        with listen(self._on_call), self._record_residuals(slice(0, n), n):
            if kind == "encoder-decoder":
                memory = model.encode(ids, mask)
                ids, target_mask = self._padded(self.targets)
                return model.decode(ids, memory, mask=target_mask, memory_mask=mask)
            return model.encode(ids, mask) if kind == "encoder" else model.decode(ids, mask=mask)

    def _padded(self, rows: Rows) -> tuple[Tensor, masks.Mask | None]:
        ids, lengths = pad(rows, self.model.embedding.weight.device)
        return ids, None if len({len(row) for row in rows}) == 1 else masks.padding(lengths)

    def _on_call(self, call: Call | Mixing) -> None:
        self.calls.append(call)
        if self.listener is not None:
            self.listener.notify(*_layer_of(call), call)

    def _in_chunks(self, ids: Tensor) -> Tensor:
        """Run the decoder in chunks that share a cache, whose keys and values are the trace's."""
        model, n = self.model, ids.shape[1]
        cache = model.new_cache(1, n)
        cache.layers = [_full_cache(layer, n) for layer in cache.layers]
        attending = [block.attention for block in _blocks(model.decoder) if not isinstance(block.attention, StateMixer)]
        # All layers share the position and so its bias.
        position = getattr(attending[0], "position", None) if attending else None
        bias = position.bias(n, n, device=ids.device) if isinstance(position, ALiBi | Relative) else None
        whole: list[Call | Mixing] = []
        states = []
        for span in chunks(n):
            with listen(self._chunk_joiner(whole, span, n, bias)), self._record_residuals(span, n):
                states.append(model.decode(ids[:, span], cache=cache))
        return torch.cat(states, 1)

    def _chunk_joiner(
        self, whole: list[Call | Mixing], span: slice, n: int, bias: Tensor | None
    ) -> Callable[[Call | Mixing], None]:
        """Return a function that joins a chunk's calls to the earlier ones; the last chunk completes a layer."""
        at = count()

        def join(call: Call | Mixing) -> None:
            i = next(at)
            join_call(whole, i, call, span, n)
            if span.stop == n:
                joined = whole[i]
                self._on_call(joined if bias is None or isinstance(joined, Mixing) else replace(joined, bias=bias))
            elif self.listener is not None:
                self.listener.check_stop()

        return join

    @contextmanager
    def _record_residuals(self, span: slice, n: int) -> Iterator[None]:
        """Record the residual stream after every block at the requested token, if it is in `span` of the text's n tokens."""
        requested = None if self.listener is None else self.listener.residuals
        if requested is not None and not -n <= requested < n:
            raise Problem("there is no token {place}: they count from 0 to {last}", place=requested, last=n - 1)
        position = -1 if requested is None else requested % n
        if not span.start <= position < span.stop:
            yield
            return
        blocks = _blocks(self.model.encoder if self.model.decoder is None else self.model.decoder)
        keep = lambda block, args, output: self.residuals.append(output[0, position - span.start].clone())  # noqa: E731
        with ExitStack() as hooks:
            for block in blocks:
                hooks.enter_context(block.register_forward_hook(keep))
            yield


def _join_routing(routings: list[Routing]) -> dict[str, Routing]:
    """Return the routing by layer, with the chunks of a long text joined."""
    layers: dict[str, list[Routing]] = {}
    for routing in routings:
        layers.setdefault(routing.name, []).append(routing)
    joined = {}
    for name, parts in layers.items():
        experts, shares = (torch.cat([getattr(part, what) for part in parts], 1) for what in ("chosen", "shares"))
        joined[name] = Routing(name, experts, shares, parts[0].count)
    return joined


def _rotary_turning(model: Transformer, length: int) -> Turning | None:
    """Return the rotary frequencies for a text of this length; None if layers differ or don't use them."""
    positions = [getattr(block.attention, "position", None) for block in _blocks(model.decoder or model.encoder)]
    positions = list({id(position): position for position in positions if position is not None}.values())
    position = positions[0] if len(positions) == 1 else None  # layers with a window may have their own
    if not isinstance(position, Rotary) or position.interleaved:
        return None
    return Turning(position.at_length(length), position.stretch)


def _full_cache(cache: KVCache | WindowCache, n: int) -> KVCache:
    """Return an empty cache for n tokens in place of a window's, which drops keys; return any other cache unchanged."""
    if not isinstance(cache, WindowCache):
        return cache
    _, heads, _, width = cache.k.shape
    return KVCache(1, heads, n, width, dtype=cache.k.dtype, device=cache.k.device)


def _target_rows(model: Transformer, rows: Rows, tokenizer: Any, target: TextInput | None) -> Rows:
    """Return the decoder's ids, the start token first."""
    if target is None:
        if tokenizer is None:
            raise Problem("a text needs a tokenizer: pass tokenizer=, or give token ids")
        answers = translate_ids(model, tokenizer, rows, most=MAX_TARGET)
    else:
        answers = targets_of(target, tokenizer, len(rows))
    start = [] if tokenizer is None or tokenizer.start is None else [tokenizer.start]
    return [[*start, *ids] for ids in answers]


def _cut_length(model: Transformer, targets: Rows) -> int | None:
    """Return the number of tokens after which generation was cut off, None if it was not; rows have a start token."""
    limit = min(MAX_TARGET, model.config.context) if model.config.position == "learned" else MAX_TARGET
    return limit if max(map(len, targets)) > limit else None


def _tokens(tokenizer: AnyTokenizer, rows: Rows) -> list[Tokens]:
    """Return the labels of every row, short ones padded."""
    length, reader = max(map(len, rows)), reader_of(tokenizer)
    return [padded(reader, row, [i < len(row) for i in range(length)]) for row in rows]


def _group(calls: list[Call | Mixing]) -> tuple[dict[str, list[Call | Mixing]], dict[str, tuple[int, ...]]]:
    """Group calls by the part in their names ("decoder.3"); return also the layers' numbers if there are mixers."""
    layers: dict[str, list[Call | Mixing]] = {}
    numbers: dict[str, list[int]] = {}
    for call in calls:
        part, number = _layer_of(call)
        layers.setdefault(part, []).append(call)
        numbers.setdefault(part, []).append(number)
    return layers, {part: tuple(each) for part, each in numbers.items() if "mixers" in layers}


def _layer_of(call: Call | Mixing) -> Layer:
    part, number = (call.name or "decoder.0").split(".")
    return "mixers" if isinstance(call, Mixing) else part, int(number)


def _blocks(stack: nn.ModuleList | None) -> list[Block]:
    return [block for block in stack or () if isinstance(block, Block)]


def _outputs(model: Transformer) -> dict[str, Projection]:
    """Return the output projections that read the heads' outputs unchanged, by layer name.

    Mixers have a norm and a gate before theirs, some attention a gate. With a norm after the projection, a head's part of
    the residual stream can't be separated.
    """
    projections: dict[str, Projection] = {}
    if model.config.norm_place == "both":
        return projections
    for part in ("encoder", "decoder"):
        for i, block in enumerate(_blocks(getattr(model, part))):
            for side, heads in ((part, block.attention), ("cross", getattr(block, "cross", None))):
                out = getattr(heads, "out", None)
                if out is not None and getattr(heads, "gate", None) is None and not isinstance(heads, StateMixer):
                    projections[f"{side}.{i}"] = Projection(out.weight, out.bias)
    return projections
