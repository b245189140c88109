"""A view: a text in a model, with what was changed in its heads, from the moment its tokens are known.

Its layers come one by one; who asks for one that is not there yet waits for it. Beside q, k and v it holds the final
states, of which next words are made for any place without the logits of all.

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
from ..draw.layer_json import Arrays, layer_of, opened_at, token_lists, whole_layer
from ..draw.precision import ERRORS, errors_of
from ..i18n import Problem
from ..mixers import mixer_maps
from ..mixers.calls import Mixing
from ..tracing.record.model_protocol import model_of
from ..tracing.record.streaming import Heads, Sides, StreamStopped, follow
from ..tracing.record.tokenizer_protocol import reader_of
from ..tracing.study.edits import edit
from ..tracing.study.survey import Look, Surveyor, plain
from ..tracing.views.attention_maps import Head, head_of
from ..tracing.views.token_labels import show
from ..tracing.views.traces import Trace
from .frames import Fields
from .requests import ViewSpec

SHORT = 256  # tokens of a text whose layers are looked at all together, once the words are known

Wanted = Callable[[], bool]
AttentionCall = Call | Mixing
HeadMap = Head | mixer_maps.MixerHead


class Send(Protocol):
    """Send a frame of a response. With `hold` it may go with the next one: many small frames take longer than one."""

    def __call__(self, fields: Fields, /, *arrays: np.ndarray, hold: bool = False) -> None: ...


class Unmade(Exception):
    """The requested view isn't in memory, or isn't finished: it must be made first."""


class TextView:
    """What is looked at. `trace` grows while the model runs: its calls are those heard so far."""

    def __init__(self, spec: ViewSpec, model: Any = None, tokenizer: Any = None) -> None:
        self.spec, self.model, self.tokenizer = spec, model, tokenizer
        self.trace: Trace | None = None  # once whole
        self.calls: dict[tuple[str, int], AttentionCall] = {}  # part, place among its layers
        self.numbers: dict[str, tuple[int, ...]] = {}  # part → the layers' numbers in the model
        self.surveyor: Surveyor | None = None
        self.sent: set[tuple[str, int]] = set()
        self.short = False
        self.looks: dict[tuple[str, int], list[list[Look]]] = {}  # item → head
        self.heads: dict[tuple[str, int, int, int], HeadMap] = {}
        self.labels: dict[int, str] = {}
        self.parts: dict[int, str] | None = None  # tokens of the text that are parts of characters, once it was read
        self.failed = False
        self.there = threading.Condition()

    @property
    def bytes(self) -> int:
        """What its q, k and v take."""
        tensors = (tensor for call in self.calls.values() for tensor in (call.q, call.k, call.v))
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def call(self, part: str, at: int, wanted: Wanted) -> AttentionCall:
        """The call of a layer, waited for while the model runs."""
        with self.there:
            while (part, at) not in self.calls:
                known = self.numbers.get(part)
                if self.failed:
                    raise Unmade
                if (known is not None and at >= len(known)) or self.trace is not None:
                    raise Problem("there is no layer {layer}: this model has {n} layers", layer=at, n=len(known or ()))
                if not wanted():
                    raise StreamStopped
                self.there.wait(0.2)
        return self.calls[part, at]

    def head(self, part: str, at: int, item: int, head: int, wanted: Wanted) -> HeadMap:
        """One head, ready to compute."""
        call = self.call(part, at, wanted)
        if head >= call.n_head or item >= call.q.shape[0]:
            raise Problem("there is no head {head}: this layer has 0 … {last}", head=head, last=call.n_head - 1)
        key = part, at, item, head
        if key not in self.heads:
            if len(self.heads) > 600:
                self.heads.clear()
            make = mixer_maps.head_of if isinstance(call, Mixing) else head_of
            one: HeadMap = make(plain(call), item, head)
            looks = self.looks.get((part, at))
            if isinstance(one, Head) and looks is not None and (left := looks[item][head].left) is not None:
                one.know_without(self.sinks(part, item), left)
            self.heads[key] = one
        return self.heads[key]

    def make(self, send: Send, wanted: Wanted) -> None:
        """Run the model (or take the trace as it is), and send the header, then every layer as it is heard."""
        try:
            if self.model is None:
                self._shown(Trace.load(self.spec.model.file), send)
            else:
                with self.edited():
                    self.trace = follow(
                        self.model,
                        self.spec.text,
                        self.tokenizer,
                        target=self.spec.trace_target(),
                        more=self.spec.more,
                        name=self.spec.model.name,
                        told=lambda heads, queries, keys: self._told(heads, queries, keys, send),
                        heard=lambda part, number, call: self._heard(
                            part, self.numbers[part].index(number), call, send
                        ),
                        stop=lambda: not wanted(),
                    )
        except BaseException:
            self.failed = True
            raise
        finally:
            with self.there:
                self.there.notify_all()

    @contextmanager
    def edited(self) -> Iterator[None]:
        """With the heads changed as the view says."""
        with ExitStack() as stack:
            for heads, to in self.spec.edits:
                stack.enter_context(edit(self.model, heads, to))
            yield

    def again(self, send: Send) -> None:
        """Send what is there already."""
        assert self.trace is not None
        heads = {
            part: {n: self.calls[part, at].n_head for at, n in enumerate(each)} for part, each in self.numbers.items()
        }
        self._send_header(heads, self.trace.queries, self.trace.keys, send, self.first())

    def layers(self, send: Send) -> None:
        """Send the layers that weren't sent while the model ran: of a short text, of a trace, of a view that was there."""
        self._look()
        left = [key for key in self.calls if key not in self.sent]
        for key in left:
            self._send_layer(*key, send, hold=key != left[-1])
        self.sent.clear()

    def _look(self) -> None:
        """Look at all layers that weren't looked at; those that are alike together, as one of many heads."""
        for part, numbers in self.numbers.items():
            left = [at for at in range(len(numbers)) if (part, at) not in self.looks]
            calls = [self.calls[part, at] for at in left]
            together = _joined(calls) if len(calls) > 1 else None
            if together is None:
                for at, call in zip(left, calls, strict=True):
                    self.looks[part, at] = self._looks(part, call)
                continue
            looks = self._looks(part, together)
            for i, (at, call) in enumerate(zip(left, calls, strict=True)):
                own = slice(i * call.n_head, (i + 1) * call.n_head)
                self.looks[part, at] = [item[own] for item in looks]

    def _shown(self, trace: Trace, send: Send) -> None:
        """A trace is whole: where it is worth opening at is known before anything is sent."""
        self.trace = trace
        heads = {
            part: {n: call.n_head for n, call in zip(trace.layers(part), trace.calls[part], strict=True)}
            for part in trace.parts
        }
        self._survey(heads, trace.queries, trace.keys)
        for part in trace.parts:
            for at, call in enumerate(trace.calls[part]):
                self._keep(part, at, call)
        self._send_header(heads, trace.queries, trace.keys, send, self.first())

    def _told(self, heads: Heads, queries: Sides, keys: Sides, send: Send) -> None:
        """All that is known before anything was computed."""
        self._survey(heads, queries, keys)
        part = next(iter(heads))
        first = dict(part=part, item=0, layer=0, head=0, query=len(queries[part][0]) - 1, key=0)
        self._send_header(heads, queries, keys, send, first)

    def _survey(self, heads: Heads, queries: Sides, keys: Sides) -> None:
        self.surveyor = Surveyor(heads, queries, keys)
        self.short = all(len(tokens) <= SHORT for side in (queries, keys) for each in side.values() for tokens in each)
        with self.there:
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
        shown = None if self.model is not None else self.trace
        part = next(iter(heads))
        header = dict(
            model=self.spec.model.name if shown is None else shown.model,
            text=self._read() if shown is None else shown.text,
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
        """The text with what was generated after it."""
        more = self.spec.more
        return self.spec.text + (self.tokenizer.decode(more) if more and self.tokenizer is not None else "")

    def _exceeded(self, n: int) -> int | None:
        """The model's context, where a text is longer."""
        context = None if self.model is None else model_of(self.model).context
        return context if context is not None and n > context else None

    def _heard(self, part: str, at: int, call: AttentionCall, send: Send) -> None:
        self._keep(part, at, call)
        if not self.short:
            self.looks[part, at] = self._looks(part, call)
            self._send_layer(part, at, send)

    def _looks(self, part: str, call: AttentionCall) -> list[list[Look]]:
        assert self.surveyor is not None
        return [self.surveyor.look(part, call, item) for item in range(call.q.shape[0])]

    def _keep(self, part: str, at: int, call: AttentionCall) -> None:
        with self.there:
            self.calls[part, at] = call
            self.there.notify_all()

    def _send_layer(self, part: str, at: int, send: Send, *, hold: bool = False) -> None:
        self.sent.add((part, at))
        looks, call = self.looks[part, at], self.calls[part, at]
        send(
            {
                "kind": "layer",
                "part": part,
                "at": at,
                "layer": layer_of(call, self.numbers[part][at]) | dict(errors=self._errors(call)),
                "links": [[one.link for one in item] for item in looks],
                "tops": [[one.top for one in item] for item in looks],
                "entropy": [[one.entropy for one in item] for item in looks],
            },
            np.stack([np.stack([one.picture for one in item]) for item in looks]),
            hold=hold,
        )

    def head_arrays(self, one: AttentionCall, number: int) -> tuple[Fields, list[np.ndarray]]:
        """What a browser computes a head's weights from: a layer of one head, as pages describe it, and its arrays in order."""
        arrays = Arrays()
        return whole_layer(one, number, arrays, self._errors(one)), arrays.all

    def _errors(self, call: AttentionCall) -> dict[str, float]:
        """How far the numbers of a call may be off; what a model computes is kept as it is, a trace may have been rounded."""
        return ERRORS if self.trace is None else errors_of(self.trace, call)

    def first(self) -> Fields:
        """What it is worth opening at; a shipped trace may say it itself."""
        assert self.trace is not None
        if isinstance(said := self.trace.more.get("opening"), str):
            return json.loads(said)
        self._look()
        parts = [
            dict(
                name=part,
                n=self.trace.calls[part][0].q.shape[2],
                m=self.trace.calls[part][0].k.shape[2],
                layers=[dict(q=True)] * len(numbers),
                links=[[[one.link for one in self.looks[part, at][0]] for at in range(len(numbers))]],
                tops=[[[one.top for one in self.looks[part, at][0]]] for at in range(len(numbers))],
                signed=part == "mixers",
            )
            for part, numbers in self.numbers.items()
        ]
        return opened_at(self.trace, parts)

    def counts(self) -> dict[str, list[int]]:
        """Heads of every layer of every part."""
        return {part: [self.calls[part, at].n_head for at in range(len(each))] for part, each in self.numbers.items()}

    def sinks(self, part: str, item: int) -> list[int]:
        """The keys that are left out where the sink is hidden: the first and special ones."""
        assert self.surveyor is not None
        special = self.surveyor.keys[part][item].special
        first = {0} if part not in ("cross", "mixers") else set()
        return sorted(first | {j for j, one in enumerate(special) if one})

    def label(self, token: int) -> str:
        """A token as people read it; a part of a character as the text names it."""
        if self.parts is None and self.trace is not None:
            texts = [tokens[0] for tokens in self.trace.queries.values()]
            self.parts = {i: label for text in texts for i, label in text.parts_of_characters()}
        if self.parts and token in self.parts:
            return self.parts[token]
        if token not in self.labels:
            try:
                self.labels[token] = show(reader_of(self.tokenizer).tokens([token]).pieces[0])
            except Problem:  # a model's vocabulary may be filled up beyond the tokenizer's
                self.labels[token] = f"[{token}]"
        return self.labels[token]

    def states(self) -> Tensor | None:
        """Final states (N, C) of the first text, where the model gives them."""
        states = None if self.trace is None else self.trace.more.get("states")
        return None if states is None else states[0]


def _joined(calls: Sequence[AttentionCall]) -> Call | None:
    """Layers that attend alike as one layer of all their heads; None where they don't."""
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
    """The next words that a shipped trace was saved with."""
    kept = trace.more.get("words")
    return json.loads(kept) if isinstance(kept, str) else None
