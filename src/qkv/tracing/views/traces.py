"""A trace: q, k, v and the mask of every attention of a model on a text, and exact views computed from them.

    trace = qkv.trace(model, "The cat sat on the mat because it was tired", tokenizer)
    trace.map(13, 8)                  the weights of layer 13, head 8: (N, M)
    trace.map(13, 8, bins=512)        the pooled map, at any length
    trace.row(13, 8, "it")            the weights of a query
    trace.column(13, 8, "cat")        the weights on a key
    trace.steps(13, 8)                the five steps with their numbers
    trace.find("it", "cat")           the heads that link two words
    trace.experts(3)                  the experts of each token in layer 3

A model with one stack has one part (encoder or decoder); an encoder-decoder has encoder, decoder and cross. `part=` selects
one, by default the first. Layers that keep a state instead of attending (retention, Mamba-2, the delta rule) are the part
mixers: y = A·V holds there too, but A is signed and its rows don't sum to 1. Layers and heads count from 0 and have the
model's numbers: if only some layers attend (Jamba, Qwen3-Next), `trace.layers()` lists them.

B batch, H heads, G key/value heads, N queries, M keys, D head width, C model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...attention import masks
from ...attention.dispatch import Call, attend
from ...attention.oracle import Steps, from_qkv
from ...attention.pooling import Pool
from ...i18n import Problem, all_of
from ...mixers.calls import Mixing
from ...mixers.mixer_maps import MixerHead
from ...mixers.mixer_maps import head_of as mixing_head
from ...model.experts import Routing
from .attention_maps import Head, Span, head_of
from .token_labels import PARTS, Group, Tokens
from .trace_parts import Floats, Projection, Routed, Turning

if TYPE_CHECKING:
    from ...mixers.stepwise import MixerSteps
    from ..study.patterns import Patterns
    from ..study.survey import Progress, Survey


@dataclass(frozen=True)
class Trace:
    """q, k, v and the mask of every attention of a model on a text; see the head of this file.

    >>> from importlib.resources import files
    >>> trace = Trace.load(str(files("qkv") / "demo" / "traces" / "cat-smollm2.safetensors"))
    >>> trace
    <Trace of smollm2: decoder 30 × 9 heads, 10 tokens>
    >>> trace.parts, trace.n_layer(), trace.n_head(), trace.layers()[-1], trace.tokens().shown[:3], trace.bare
    (['decoder'], 30, 9, 29, ['The', 'cat', 'sat'], False)
    >>> [(layer, head, round(weight, 2)) for layer, head, weight in trace.find("it", "cat", most=2)]
    [(13, 8, 0.8), (3, 8, 0.49)]
    >>> round(float(trace.row(13, 8, "it")[trace.place("cat")]), 2), trace.column(13, 8, "cat").shape
    (0.8, (10,))
    >>> trace.map(13, 8).shape, trace.map(13, 8, bins=4).shape
    ((10, 10), (4, 4))
    >>> trace.steps(13, 8, "it"), trace.difference(13, 8, "it") < 1e-5
    (<Steps: weights (1, 10), output (1, 64), scale 0.125>, True)
    >>> trace.call(13).q.shape, trace.head(13, 8).weights().shape, trace.rollout().shape
    (torch.Size([1, 9, 10, 64]), torch.Size([10, 10]), (10, 10))
    >>> trace.patterns().best("first", most=1)[0].place
    '18.8'
    >>> trace.survey().most_telling(trace.layers(), range(9))
    (13, 8)
    """

    calls: dict[str, list[Call | Mixing]]  # part → its layers: a `Call` for each, a `Mixing` in the part mixers
    queries: dict[str, list[Tokens]]  # part → per item
    keys: dict[str, list[Tokens]]
    model: str = ""
    text: str = ""
    outputs: dict[str, Projection] = field(default_factory=dict)  # "decoder.13" → its output projection
    more: dict[str, Any] = field(default_factory=dict)  # position kind, logits, training step, …
    turning: Turning | None = None  # the rotary positions of native models
    numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)  # part → its layers' numbers, if not 0, 1, 2, …
    routing: dict[str, Routing] = field(default_factory=dict)  # "decoder.3" → the experts of its tokens
    _heads: dict[tuple[str, int, int, int], Head | MixerHead] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _surveys: dict[str, Survey] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def parts(self) -> list[str]:
        """The names of the parts, in order."""
        return [part for part in PARTS if part in self.calls]

    def layers(self, part: str | None = None) -> tuple[int, ...]:
        """Return the layers of a part that attend, by their numbers in the model."""
        part = self._part(part)
        return self.numbers.get(part) or tuple(range(len(self.calls[part])))

    def n_layer(self, part: str | None = None) -> int:
        """Return the number of layers of a part that attend."""
        return len(self.calls[self._part(part)])

    @overload
    def call(self, layer: int, part: Literal["encoder", "decoder", "cross"]) -> Call: ...

    @overload
    def call(self, layer: int, part: Literal["mixers"]) -> Mixing: ...

    @overload
    def call(self, layer: int, part: str | None = None) -> Call | Mixing: ...

    def call(self, layer: int, part: str | None = None) -> Call | Mixing:
        """Return the arguments of a layer's attention (a `Call`) or mixer (a `Mixing`)."""
        part = self._part(part)
        return self.calls[part][self._layer_index(part, layer)]

    def n_head(self, part: str | None = None, layer: int | None = None) -> int:
        """Return the number of heads of a layer, by default the largest of the part."""
        calls = self.calls[self._part(part)] if layer is None else [self.call(layer, part)]
        return max(call.n_head for call in calls)

    def tokens(self, part: str | None = None, batch: int = 0, *, keys: bool = False) -> Tokens:
        """Return the tokens of the queries or, with `keys=True`, of the keys."""
        part = self._part(part)
        return (self.keys if keys else self.queries)[part][self._item(part, batch)]

    @property
    def expert_layers(self) -> tuple[int, ...]:
        """The layers with a mixture of experts.

        >>> from importlib.resources import files
        >>> Trace.load(str(files("qkv") / "demo" / "traces" / "cat-smollm2.safetensors")).expert_layers
        ()
        """
        return tuple(int(name.split(".")[1]) for name in self.routing if name.startswith(self._expert_side()))

    def experts(self, layer: int, *, part: str | None = None, batch: int = 0) -> Routed:
        """Return the experts of each token in a layer, best first, and their shares.

        >>> from ...model import Config, Transformer
        >>> from ..record.recorder import trace
        >>> _ = torch.manual_seed(0)
        >>> recorded = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2, experts={"count": 4})), [3, 1, 4])
        >>> recorded.experts(0).chosen.shape, recorded.experts(0).shares.sum(1).round(3)
        ((3, 2), array([1., 1., 1.], dtype=float32))
        """
        part = self._expert_side() if part is None else part
        if not self.routing:
            raise Problem("this model has no experts: each of its layers has one feed-forward for all tokens")
        if f"{part}.{layer}" not in self.routing:
            raise Problem(
                "layer {layer} has no experts; these have: {layers}", layer=layer, layers=all_of(self.expert_layers)
            )
        routing, item = self.routing[f"{part}.{layer}"], self._item(part, batch)
        return Routed(routing.chosen[item].cpu().numpy(), routing.shares[item].float().cpu().numpy(), routing.count)

    def _expert_side(self) -> str:
        """Return the part that has experts."""
        return next((name.split(".")[0] for name in self.routing), "decoder")

    def map(
        self,
        layer: int,
        head: int | None = None,
        *,
        rows: Span = None,
        cols: Span = None,
        bins: int | None = None,
        pool: Pool = "mean",
        words: bool = False,
        part: str | None = None,
        batch: int = 0,
    ) -> Floats:
        """Return the weights (N, M), or a rectangle of them; the mean over heads if `head` is None.

        `bins` pools the map to at most bins × bins cells (`pool` is mean, max or sum). `words` joins tokens to words: sums
        over keys, means over queries.
        """
        if bins is not None and (rows is not None or cols is not None or words):
            raise Problem("bins pools the whole map: leave rows, cols and words out")
        indices = range(self.n_head(part, layer)) if head is None else [head]
        heads = (self.head(layer, h, part, batch) for h in indices)
        total = sum(view.weights(rows, cols).float() if bins is None else view.pooled(bins, pool) for view in heads)
        table = (total / len(indices)).numpy()  # type: ignore[union-attr]
        if not words:
            return table
        if rows is not None or cols is not None:
            raise Problem("words joins the whole map: leave rows and cols out")
        return join(table, *(self.tokens(part, batch, keys=side).words for side in (False, True)))

    def row(self, layer: int, head: int, query: int | str, *, part: str | None = None, batch: int = 0) -> Floats:
        """Return the weights of one query (M,)."""
        index = self.place(query, part, batch)
        return self.head(layer, head, part, batch).weights([index])[0].float().numpy()

    def column(self, layer: int, head: int, key: int | str, *, part: str | None = None, batch: int = 0) -> Floats:
        """Return every query's weight on one key (N,)."""
        index = self.place(key, part, batch, keys=True)
        return self.head(layer, head, part, batch).column(index).float().numpy()

    def steps(
        self, layer: int, head: int, query: int | str | None = None, *, part: str | None = None, batch: int = 0
    ) -> Steps | MixerSteps:
        """Return the five steps of a head in float64, of all queries or of one; for mixers, `MixerSteps` of the text."""
        view = self._head_with_qkv(layer, head, part, batch)
        if isinstance(view.call, Mixing):
            return _mixer_steps(view.call, self.tokens(part, batch).numbered)
        rows = None if query is None else [self.place(query, part, batch)]
        call = view.call
        query_names, key_names = self.tokens(part, batch).numbered, self.tokens(part, batch, keys=True).numbered
        bias = None if call.bias is None else call.bias.expand(1, 1, view.n, view.m)[0, 0].double().numpy()
        q = call.q[0, 0].double().numpy()
        return from_qkv(
            q if rows is None else q[rows],
            call.k[0, 0].double().numpy(),
            call.v[0, 0].double().numpy(),
            mask=view.allowed(rows).numpy(),
            scale=call.scale,
            bias=bias if bias is None or rows is None else bias[rows],
            softcap=call.softcap,
            sinks=None if call.sinks is None else call.sinks.reshape(1).double().numpy(),
            names=query_names if rows is None else [query_names[i] for i in rows],
            memory_names=key_names,
        )

    def difference(
        self, layer: int, head: int, query: int | str | None = None, *, part: str | None = None, batch: int = 0
    ) -> float:
        """Return the largest difference between the output of the steps and that of the fast kernel.

        Compares one query or all of them; above 512 queries a sample of 64 or more, to avoid an n×n matrix.
        """
        view = self._head_with_qkv(layer, head, part, batch)
        if isinstance(view.call, Mixing):
            exact = view.call.mapped(Tensor.double).run("recurrent", 1)[0]
            return float((view.call.run("chunkwise", 64)[0].double() - exact).abs().max())
        if query is None and view.n > 512:
            queries = range(0, view.n, view.n // 64)
            return max(self.difference(layer, head, i, part=part, batch=batch) for i in queries)
        rows = None if query is None else [self.place(query, part, batch)]
        call = view.call
        q = call.q if rows is None else call.q[:, :, rows]
        mask = masks.dense(view.allowed(rows)[None, None])
        bias = call.bias if call.bias is None or rows is None else call.bias.expand(1, 1, view.n, view.m)[:, :, rows]
        sinks = None if call.sinks is None else call.sinks.reshape(1)
        with torch.no_grad():
            kernel = attend(q, call.k, call.v, mask, scale=call.scale, bias=bias, softcap=call.softcap, sinks=sinks)
        steps = self.steps(layer, head, query, part=part, batch=batch)
        return float((kernel[0, 0].double() - torch.from_numpy(steps.output)).abs().max())

    def rotation(
        self, layer: int, head: int, query: int | str, *, part: str | None = None, batch: int = 0
    ) -> Floats | None:
        """Return how rotary positions turned one query's q, None if unknown: (D/2, 5), a row per pair (i, i + D/2) with
        the angle in radians, the pair before and the pair after.

        >>> from ...model import Config, Transformer
        >>> from ..record.recorder import trace
        >>> recorded = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4])
        >>> recorded.rotation(0, 1, 2)[:, 0].round(2)
        array([2.  , 0.02], dtype=float32)
        """
        part, turning = self._part(part), self.turning
        if turning is None or part in ("cross", "mixers"):
            return None
        index, half = self.place(query, part, batch), len(turning.frequencies)
        after = self.head(layer, head, part, batch).call.q[0, 0, index, : 2 * half].double()
        angles = torch.tensor(turning.frequencies, dtype=torch.float64) * index
        a, b = after[:half] / turning.stretch, after[half:] / turning.stretch
        before = torch.stack([a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()], 1)
        return torch.cat([angles[:, None], before, after.view(2, half).T], 1).float().numpy()

    def contribution(
        self, layer: int, head: int, query: int | str, *, part: str | None = None, batch: int = 0
    ) -> Floats:
        """Return what a head adds to the residual stream of one query: its slice of W_o times Σ w·v, (C,).

        >>> from ...model import Config, Transformer
        >>> from ..record.recorder import trace
        >>> recorded = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4])
        >>> recorded.contribution(0, 1, 2).shape
        (8,)
        """
        part = self._part(part)
        view = self._head_with_qkv(layer, head, part, batch)
        mixed = view.weights([self.place(query, part, batch)])[0].float() @ view.call.v[0, 0].float()
        return (self._slice(part, layer, head) @ mixed).numpy()

    def norms(self, layer: int, head: int, *, part: str | None = None, batch: int = 0) -> Floats:
        """Return value-weighted attention (N, M): each weight times the norm of what that key adds to the residual stream.

        >>> from ...model import Config, Transformer
        >>> from ..record.recorder import trace
        >>> recorded = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4])
        >>> recorded.norms(0, 1).shape
        (3, 3)
        """
        part = self._part(part)
        view = self._head_with_qkv(layer, head, part, batch)
        added = (view.call.v[0, 0].float() @ self._slice(part, layer, head).T).norm(dim=-1)  # (M,)
        return (view.weights().float() * added).numpy()

    def rollout(self, *, part: str | None = None, batch: int = 0) -> Floats:
        """Return attention rollout (N, N): the product over layers of half the mean of heads plus half the identity."""
        part = self._part(part)
        if part == "mixers":
            raise Problem("a mixer's map is signed and its rows don't sum to 1: there is nothing to roll out")
        if part == "cross":
            raise Problem("rollout follows one text through its own layers: choose part='encoder' or 'decoder'")
        n = len(self.tokens(part, batch))
        flow = np.eye(n, dtype=np.float64)
        for layer in self.layers(part):
            flow = (0.5 * self.map(layer, part=part, batch=batch).astype(np.float64) + 0.5 * np.eye(n)) @ flow
        return flow.astype(np.float32)

    def find(
        self, from_: int | str, to: int | str, *, part: str | None = None, batch: int = 0, most: int | None = 10
    ) -> list[tuple[int, int, float]]:
        """Return the heads that link two tokens, strongest first: (layer, head, weight of `from_` on `to`)."""
        from .head_ranking import links

        part = self._part(part)
        query, key = self.place(from_, part, batch), self.place(to, part, batch, keys=True)
        return links(self, query, key, "tokens", part=part, batch=batch)[:most]

    def patterns(self, *, part: str | None = None, batch: int = 0) -> Patterns:
        """Return what each head does (previous token, first token, induction, …), with scores."""
        from ..study.patterns import patterns

        if self._part(part) == "mixers":
            raise Problem("patterns are of attention, whose rows are shares: choose another part than mixers")
        return patterns(self, part=part, batch=batch)

    def survey(self, part: str | None = None, progress: Progress | None = None) -> Survey:
        """Return a summary of every head of a part (small picture, strongest link, …), which is cached."""
        from ..study.survey import survey

        part = self._part(part)
        if part not in self._surveys:
            self._surveys[part] = survey(self, part, progress)
        return self._surveys[part]

    def head(self, layer: int, head: int, part: str | None = None, batch: int = 0) -> Head | MixerHead:
        """Return a view of one head, which caches costly results."""
        part = self._part(part)
        call, batch = self.call(layer, part), self._item(part, batch)
        heads = call.n_head
        if not 0 <= head < heads:
            raise Problem("there is no head {head}: this layer has 0 … {last}", head=head, last=heads - 1)
        key = part, layer, batch, head
        if key not in self._heads:
            self._heads[key] = (
                mixing_head(call, batch, head) if isinstance(call, Mixing) else head_of(call, batch, head)
            )
        return self._heads[key]

    def _head_with_qkv(self, layer: int, head: int, part: str | None, batch: int) -> Head | MixerHead:
        """Return a view of one head; refuse one without q, k and v."""
        view = self.head(layer, head, part, batch)
        if view.bare:
            raise Problem(
                "this trace of {model} holds the weights alone (--eager): there are no q, k and v to show steps, "
                "outputs or contributions from; maps, rows, links and patterns are all there",
                model=self.model or "?",
            )
        return view

    @property
    def bare(self) -> bool:
        """True if the trace has weights alone (`eager=True`), without q, k and v."""
        return all(call.q.shape[3] == 0 for calls in self.calls.values() for call in calls)

    def place(self, word: int | str, part: str | None = None, batch: int = 0, *, keys: bool = False) -> int:
        """Return the index of a token, given by index or text."""
        tokens = self.tokens(part, batch, keys=keys)
        if isinstance(word, str):
            return tokens.find(word)
        if not -len(tokens) <= word < len(tokens):
            raise Problem("there is no token {place}: they count from 0 to {last}", place=word, last=len(tokens) - 1)
        return word % len(tokens)

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """Write the trace to a safetensors file of O(n·d) bytes, with `half` in float16.

        >>> from tempfile import TemporaryDirectory
        >>> from ...model import Config, Transformer
        >>> from ..record.recorder import trace
        >>> recorded = trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4])
        >>> with TemporaryDirectory() as folder:
        ...     recorded.save(Path(folder, "trace.safetensors"))
        ...     print(Trace.load(Path(folder, "trace.safetensors")))
        <Trace of a model: decoder 1 × 2 heads, 3 tokens>
        """
        from .trace_file import save

        save(self, Path(path), half=half)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that `save` wrote."""
        from .trace_file import load

        return load(Path(path))

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        from ...draw.page import notebook_html

        return notebook_html(self)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part} {self.n_layer(part)} × {self.n_head(part)}" for part in self.parts)
        shapes = {len(tokens) for items in self.queries.values() for tokens in items}
        return f"<Trace of {self.model or 'a model'}: {sizes} heads, {'/'.join(map(str, sorted(shapes)))} tokens>"

    def _slice(self, part: str, layer: int, head: int) -> Tensor:
        """Return the columns of the output projection for a head: (C, D)."""
        name, width = f"{part}.{layer}", self.call(layer, part).v.shape[3]
        if name not in self.outputs:
            raise Problem(
                "this trace keeps no output projection of {name}: it was saved without, or a gate or a norm stands between "
                "the heads and the projection; ask for weights alone",
                name=name,
            )
        return self.outputs[name].weight[:, head * width : (head + 1) * width].detach().cpu().float()

    def _part(self, part: str | None) -> str:
        if part is None:
            return self.parts[0]
        if part not in self.calls:
            raise Problem(
                "there is no part {part} in this trace: it has {parts}", part=part, parts=", ".join(self.parts)
            )
        return part

    def _layer_index(self, part: str, layer: int) -> int:
        """Return the index of a layer among those that attend."""
        layers = self.layers(part)
        if layer not in layers:
            raise no_layer(layer, layers, part, hybrid="mixers" in self.parts and len(self.parts) > 1)
        return layers.index(layer)

    def _item(self, part: str, batch: int) -> int:
        items = len(self.queries[part])
        if not 0 <= batch < items:
            raise Problem("there is no item {item} in the batch: it has 0 … {last}", item=batch, last=items - 1)
        return batch


def _mixer_steps(call: Mixing, names: Sequence[str]) -> MixerSteps:
    from ...mixers.stepwise import Kind, mixing

    def plain(table: Tensor) -> NDArray[np.float64]:
        return table[0, 0].double().numpy()

    q, k, v, gamma = (plain(t) for t in (call.q, call.k, call.v, call.decay.double().exp()))
    write = None if call.write is None else plain(call.write)
    kind: Kind = "linear" if write is None else "delta"
    return mixing(kind, q, k, v, gamma, write=write, scale=call.scale, chunk=max(len(names) // 2, 1), names=names)


def no_layer(layer: int, layers: tuple[int, ...], part: str | None = None, *, hybrid: bool = False) -> Problem:
    """Return the problem of a missing layer, or of one without attention (or not a mixer)."""
    if layers == tuple(range(len(layers))) and not hybrid:
        return Problem("there is no layer {layer}: this model has 0 … {last}", layer=layer, last=len(layers) - 1)
    if part == "mixers":
        return Problem(
            "layer {layer} is no mixer in this trace; these are: {layers}", layer=layer, layers=all_of(layers)
        )
    return Problem(
        "layer {layer} has no attention in this trace; these have: {layers}", layer=layer, layers=all_of(layers)
    )


def join(table: Floats, queries: Sequence[Group], keys: Sequence[Group]) -> Floats:
    """Join a map's tokens to groups: sum over the keys of a group, average over its queries.

    >>> join(np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]), [("ab", 0, 2), ("c", 2, 3)], [("ab", 0, 2), ("c", 2, 3)])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    summed = np.add.reduceat(table, [first for _, first, _ in keys], axis=1)
    counts = np.array([end - first for _, first, end in queries])[:, None]
    return np.add.reduceat(summed, [first for _, first, _ in queries], axis=0) / counts
