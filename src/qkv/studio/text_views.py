"""Views: a text in a model, with edits of its heads.

Layers arrive one by one while the model runs; `TextView.call` waits for a layer that hasn't arrived. A view also stores the
final states, from which the next words of any position are computed without the logits of all.

B items, H heads, N queries, M keys, C width, V vocabulary.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..attention.dispatch import Call
from ..draw.layer_json import Arrays, default_opening, layer_header, token_lists, whole_layer
from ..draw.precision import ERRORS, measure_errors
from ..i18n import Problem
from ..mixers import mixer_maps
from ..mixers.calls import Mixing
from ..tracing.record.model_protocol import model_of
from ..tracing.record.streaming import Heads, Sides, StreamStopped, stream_trace
from ..tracing.record.tokenizer_protocol import reader_of
from ..tracing.study.edits import edit
from ..tracing.study.survey import Look, Surveyor, plain
from ..tracing.views.attention_maps import Head, head_of
from ..tracing.views.token_labels import show
from ..tracing.views.traces import Trace
from .frames import Fields
from .requests import ViewSpec

SHORT = 256  # tokens of a text whose layers are surveyed together, after the next words were sent

IsActive = Callable[[], bool]
AttentionCall = Call | Mixing
HeadMap = Head | mixer_maps.MixerHead


class Send(Protocol):
    """Send a frame of a response. With `hold` it may go with the next one: many small frames take longer than one."""

    def __call__(self, fields: Fields, /, *arrays: np.ndarray, hold: bool = False) -> None: ...


class Unmade(Exception):
    """The requested view isn't in memory, or isn't finished: it must be made first."""


class TextView:
    """A text in a model. `calls` grows while the model runs; `trace` is set at the end."""

    def __init__(self, spec: ViewSpec, model: Any = None, tokenizer: Any = None) -> None:
        self.spec, self.model, self.tokenizer = spec, model, tokenizer
        self.trace: Trace | None = None  # when complete
        self.calls: dict[tuple[str, int], AttentionCall] = {}  # (part, index among its layers)
        self.numbers: dict[str, tuple[int, ...]] = {}  # part → the numbers of its layers in the model
        self.surveyor: Surveyor | None = None
        self.sent: set[tuple[str, int]] = set()
        self.short = False
        self.looks: dict[tuple[str, int], list[list[Look]]] = {}  # item → head
        self.heads: dict[tuple[str, int, int, int], HeadMap] = {}
        self.labels: dict[int, str] = {}
        self.parts: dict[int, str] | None = None  # token → label, for tokens that are parts of characters
        self.failed = False
        self.arrived = threading.Condition()

    @property
    def bytes(self) -> int:
        """Bytes of all q, k and v."""
        tensors = (tensor for call in self.calls.values() for tensor in (call.q, call.k, call.v))
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def call(self, part: str, at: int, is_active: IsActive) -> AttentionCall:
        """Return the call of a layer; wait for it while the model runs."""
        with self.arrived:
            while (part, at) not in self.calls:
                numbers = self.numbers.get(part)
                if self.failed:
                    raise Unmade
                if (numbers is not None and at >= len(numbers)) or self.trace is not None:
                    raise Problem(
                        "there is no layer {layer}: this model has {n} layers", layer=at, n=len(numbers or ())
                    )
                if not is_active():
                    raise StreamStopped
                self.arrived.wait(0.2)
        return self.calls[part, at]

    def head(self, part: str, at: int, item: int, head: int, is_active: IsActive) -> HeadMap:
        """Return the map of one head."""
        call = self.call(part, at, is_active)
        if head >= call.n_head or item >= call.q.shape[0]:
            raise Problem("there is no head {head}: this layer has 0 … {last}", head=head, last=call.n_head - 1)
        key = part, at, item, head
        if key not in self.heads:
            if len(self.heads) > 600:
                self.heads.clear()
            make = mixer_maps.head_of if isinstance(call, Mixing) else head_of
            head_map: HeadMap = make(plain(call), item, head)
            looks = self.looks.get((part, at))
            if isinstance(head_map, Head) and looks is not None and (without := looks[item][head].left) is not None:
                head_map.know_without(self.sinks(part, item), without)
            self.heads[key] = head_map
        return self.heads[key]

    def make(self, send: Send, is_active: IsActive) -> None:
        """Run the model (or load the trace) and send the header, then every layer as it arrives."""
        try:
            if self.model is None:
                self._load_trace(Trace.load(self.spec.model.file), send)
            else:
                with self.edited():
                    self.trace = stream_trace(
                        self.model,
                        self.spec.text,
                        self.tokenizer,
                        target=self.spec.trace_target(),
                        continuation=self.spec.more,
                        name=self.spec.model.name,
                        on_start=lambda heads, queries, keys: self._on_start(heads, queries, keys, send),
                        on_layer=lambda part, number, call: self._on_layer(
                            part, self.numbers[part].index(number), call, send
                        ),
                        stop=lambda: not is_active(),
                    )
        except BaseException:
            self.failed = True
            raise
        finally:
            with self.arrived:
                self.arrived.notify_all()

    @contextmanager
    def edited(self) -> Iterator[None]:
        """Apply the edits of the view inside the context."""
        with ExitStack() as stack:
            for heads, to in self.spec.edits:
                stack.enter_context(edit(self.model, heads, to))
            yield

    def resend(self, send: Send) -> None:
        """Send the header of a view that was cached."""
        assert self.trace is not None
        heads = {
            part: {n: self.calls[part, at].n_head for at, n in enumerate(each)} for part, each in self.numbers.items()
        }
        self._send_header(heads, self.trace.queries, self.trace.keys, send, self.first())

    def layers(self, send: Send) -> None:
        """Send the layers that weren't sent while the model ran: those of short texts, traces and cached views."""
        self._look()
        unsent = [key for key in self.calls if key not in self.sent]
        for key in unsent:
            self._send_layer(*key, send, hold=key != unsent[-1])
        self.sent.clear()

    def _look(self) -> None:
        """Survey the remaining layers; layers of one kind are surveyed together, as one layer of many heads."""
        for part, numbers in self.numbers.items():
            missing = [at for at in range(len(numbers)) if (part, at) not in self.looks]
            calls = [self.calls[part, at] for at in missing]
            together = _joined(calls) if len(calls) > 1 else None
            if together is None:
                for at, call in zip(missing, calls, strict=True):
                    self.looks[part, at] = self._looks(part, call)
                continue
            looks = self._looks(part, together)
            for i, (at, call) in enumerate(zip(missing, calls, strict=True)):
                own = slice(i * call.n_head, (i + 1) * call.n_head)
                self.looks[part, at] = [item[own] for item in looks]

    def _load_trace(self, trace: Trace, send: Send) -> None:
        """Take all layers from a trace, and send a header that names the head to open."""
        self.trace = trace
        heads = {
            part: {n: call.n_head for n, call in zip(trace.layers(part), trace.calls[part], strict=True)}
            for part in trace.parts
        }
        self._survey(heads, trace.queries, trace.keys)
        for part in trace.parts:
            for at, call in enumerate(trace.calls[part]):
                self._store_call(part, at, call)
        self._send_header(heads, trace.queries, trace.keys, send, self.first())

    def _on_start(self, heads: Heads, queries: Sides, keys: Sides, send: Send) -> None:
        """Send the header, before anything is computed."""
        self._survey(heads, queries, keys)
        part = next(iter(heads))
        first = dict(part=part, item=0, layer=0, head=0, query=len(queries[part][0]) - 1, key=0)
        self._send_header(heads, queries, keys, send, first)

    def _survey(self, heads: Heads, queries: Sides, keys: Sides) -> None:
        self.surveyor = Surveyor(heads, queries, keys)
        self.short = all(len(tokens) <= SHORT for side in (queries, keys) for each in side.values() for tokens in each)
        with self.arrived:
            self.numbers = {part: tuple(layers) for part, layers in heads.items()}

    def _send_header(self, heads: Heads, queries: Sides, keys: Sides, send: Send, first: Fields) -> None:
        assert self.surveyor is not None
        numbers, listed = token_lists(queries, keys)
        parts = []
        for part, layers in heads.items():
            tall, wide, rows, cols = self.surveyor.cells(part)
            n, m, items = len(queries[part][0]), len(keys[part][0]), len(queries[part])
            nothing: list[list[list[None]]] = [[[None] * count for count in layers.values()] for _ in range(items)]
            parts.append(
                dict(
                    name=part,
                    n=n,
                    m=m,
                    queries=numbers[part, False],
                    keys=numbers[part, True],
                    layers=[dict(number=number, heads=count) for number, count in layers.items()],
                    thumbs=dict(
                        stored=dict(id="", shape=[items, sum(layers.values()), rows, cols], dtype="u1"),
                        tall=tall,
                        wide=wide,
                    ),
                    links=nothing,
                    signed=part == "mixers",
                    tops=[[[1.0] * count for _ in range(items)] for count in layers.values()]
                    if part == "mixers"
                    else None,
                    precision=None,
                )
            )
        trace = None if self.model is not None else self.trace
        part = next(iter(heads))
        header = dict(
            model=self.spec.model.name if trace is None else trace.model,
            text=self._read() if trace is None else trace.text,
            lang=None,
            context=self._exceeded(max(len(each) for side in (queries, keys) for each in side[part])),
            parts=parts,
            focus=None,
            first=first | dict(unit="tokens"),
        )
        ids = {part: [list(tokens.ids or ()) for tokens in each] for part, each in queries.items()}
        kind = "trace" if self.model is None else model_of(self.model).kind
        send({"kind": "header", "header": header, "tokens": listed, "ids": ids, "kindOf": kind})

    def _read(self) -> str:
        """Return the text with what was generated after it."""
        more = self.spec.more
        return self.spec.text + (self.tokenizer.decode(more) if more and self.tokenizer is not None else "")

    def _exceeded(self, n: int) -> int | None:
        """Return the model's context if the text is longer, else None."""
        context = None if self.model is None else model_of(self.model).context
        return context if context is not None and n > context else None

    def _on_layer(self, part: str, at: int, call: AttentionCall, send: Send) -> None:
        self._store_call(part, at, call)
        if not self.short:
            self.looks[part, at] = self._looks(part, call)
            self._send_layer(part, at, send)

    def _looks(self, part: str, call: AttentionCall) -> list[list[Look]]:
        assert self.surveyor is not None
        return [self.surveyor.look(part, call, item) for item in range(call.q.shape[0])]

    def _store_call(self, part: str, at: int, call: AttentionCall) -> None:
        with self.arrived:
            self.calls[part, at] = call
            self.arrived.notify_all()

    def _send_layer(self, part: str, at: int, send: Send, *, hold: bool = False) -> None:
        self.sent.add((part, at))
        looks, call = self.looks[part, at], self.calls[part, at]
        send(
            {
                "kind": "layer",
                "part": part,
                "at": at,
                "layer": layer_header(call, self.numbers[part][at]) | dict(errors=self._errors(call)),
                "links": [[look.link for look in item] for item in looks],
                "tops": [[look.top for look in item] for item in looks],
                "entropy": [[look.entropy for look in item] for item in looks],
            },
            np.stack([np.stack([look.picture for look in item]) for item in looks]),
            hold=hold,
        )

    def head_arrays(self, call: AttentionCall, number: int) -> tuple[Fields, list[np.ndarray]]:
        """Return a layer of one head as pages describe it, and its arrays in order: what a browser computes weights from."""
        arrays = Arrays()
        return whole_layer(call, number, arrays, self._errors(call)), arrays.all

    def _errors(self, call: AttentionCall) -> dict[str, float]:
        """Return error bounds of a call's numbers; traces may have been rounded."""
        return ERRORS if self.trace is None else measure_errors(self.trace, call)

    def first(self) -> Fields:
        """Return the head and cell to open first; a shipped trace may name them."""
        assert self.trace is not None
        if isinstance(opening := self.trace.more.get("opening"), str):
            return json.loads(opening)
        self._look()
        parts = [
            dict(
                name=part,
                n=self.trace.calls[part][0].q.shape[2],
                m=self.trace.calls[part][0].k.shape[2],
                layers=[dict(q=True)] * len(numbers),
                links=[[[look.link for look in self.looks[part, at][0]] for at in range(len(numbers))]],
                tops=[[[look.top for look in self.looks[part, at][0]]] for at in range(len(numbers))],
                signed=part == "mixers",
            )
            for part, numbers in self.numbers.items()
        ]
        return default_opening(self.trace, parts)

    def counts(self) -> dict[str, list[int]]:
        """Return the number of heads of every layer of every part."""
        return {part: [self.calls[part, at].n_head for at in range(len(each))] for part, each in self.numbers.items()}

    def sinks(self, part: str, item: int) -> list[int]:
        """Return the keys that are left out when the sink is hidden: key 0 and special tokens."""
        assert self.surveyor is not None
        special = self.surveyor.keys[part][item].special
        first = {0} if part not in ("cross", "mixers") else set()
        return sorted(first | {j for j, is_special in enumerate(special) if is_special})

    def label(self, token: int) -> str:
        """Return the label of a token; a part of a character has the label that the text gives it."""
        if self.parts is None and self.trace is not None:
            texts = [tokens[0] for tokens in self.trace.queries.values()]
            self.parts = {i: label for text in texts for i, label in text.parts_of_characters()}
        if self.parts and token in self.parts:
            return self.parts[token]
        if token not in self.labels:
            try:
                self.labels[token] = show(reader_of(self.tokenizer).tokens([token]).pieces[0])
            except Problem:  # a model's vocabulary may be larger than the tokenizer's
                self.labels[token] = f"[{token}]"
        return self.labels[token]

    def states(self) -> Tensor | None:
        """Return the final states (N, C) of the first text, or None if the model has none."""
        states = None if self.trace is None else self.trace.more.get("states")
        return None if states is None else states[0]


def _joined(calls: Sequence[AttentionCall]) -> Call | None:
    """Return layers with equal shapes, mask and scale as one layer of all their heads, or None if they differ."""
    layers = [call for call in calls if isinstance(call, Call)]
    if len(layers) < len(calls):
        return None
    first = layers[0]
    alike = all(
        call.q.shape == first.q.shape and call.k.shape == first.k.shape
        and call.mask == first.mask and call.scale == first.scale and call.softcap == first.softcap
        and call.bias is None and call.sinks is None
        for call in layers
    )  # fmt: skip
    if not alike:
        return None
    q, k, v = (torch.cat([getattr(call, name) for call in layers], 1) for name in "qkv")
    return replace(first, q=q, k=k, v=v, lse=None)


def stored_words(trace: Trace) -> Fields | None:
    """Return the next words that were saved with a shipped trace, or None."""
    words = trace.more.get("words")
    return json.loads(words) if isinstance(words, str) else None
