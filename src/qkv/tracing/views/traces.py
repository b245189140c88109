"""A trace: what every attention of a model received on a text (q, k, v and the mask), and exact views computed from it.

    trace = qkv.trace(model, "The cat sat on the mat because it was tired", tokenizer)
    trace.map(13, 8)                  the weights of layer 13, head 8: (N, M)
    trace.map(13, 8, bins=512)        the whole of it pooled, at any length
    trace.row(13, 8, "it")            where one token looks
    trace.column(13, 8, "cat")        who looks at one token
    trace.steps(13, 8)                the five steps with their numbers
    trace.find("it", "cat")           which heads link two words
    trace.experts(3)                  which experts each token took in layer 3, of a model that has some

A model with one stack has one part (encoder or decoder); an encoder-decoder has three: encoder, decoder and cross, and
`part=` says which. Layers that keep a state instead of attending (retention, Mamba-2, the delta rule) are the part
mixers: y = A·V too, so all of the above holds, but A is signed and its rows don't sum to 1. Layers and heads count from 0, and layers are the model's own: where only some of a model's layers
attend (Jamba, Qwen3-Next), `trace.layers()` says which. Where nothing is said, `part` is the first there is.

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
    """See the head of this file. `tokens` holds one `Tokens` per item of the batch, for each side of the model.

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
    more: dict[str, Any] = field(default_factory=dict)  # position kind, logits, the step of a training run, …
    turning: Turning | None = None  # how our own models turn q and k by their positions
    numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)  # part → its layers' numbers, if not 0, 1, 2, …
    routing: dict[str, Routing] = field(default_factory=dict)  # "decoder.3" → which experts its tokens took
    _heads: dict[tuple[str, int, int, int], Head | MixerHead] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _surveys: dict[str, Survey] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def parts(self) -> list[str]:
        """Those there are, in order."""
        return [part for part in PARTS if part in self.calls]

    def layers(self, part: str | None = None) -> tuple[int, ...]:
        """The numbers that the layers of a part have in the model: those that attend."""
        part = self._part(part)
        return self.numbers.get(part) or tuple(range(len(self.calls[part])))

    def n_layer(self, part: str | None = None) -> int:
        """Layers of a part that attend."""
        return len(self.calls[self._part(part)])

    @overload
    def call(self, layer: int, part: Literal["encoder", "decoder", "cross"]) -> Call: ...

    @overload
    def call(self, layer: int, part: Literal["mixers"]) -> Mixing: ...

    @overload
    def call(self, layer: int, part: str | None = None) -> Call | Mixing: ...

    def call(self, layer: int, part: str | None = None) -> Call | Mixing:
        """What the attention (a `Call`) or the mixer (a `Mixing`) of one layer received."""
        part = self._part(part)
        return self.calls[part][self._layer_index(part, layer)]

    def n_head(self, part: str | None = None, layer: int | None = None) -> int:
        """Heads of a layer; where none is named, of the layer of the part that has most."""
        calls = self.calls[self._part(part)] if layer is None else [self.call(layer, part)]
        return max(call.n_head for call in calls)

    def tokens(self, part: str | None = None, batch: int = 0, *, keys: bool = False) -> Tokens:
        """The tokens that ask, or with `keys=True` those that are looked at."""
        part = self._part(part)
        return (self.keys if keys else self.queries)[part][self._item(part, batch)]

    @property
    def expert_layers(self) -> tuple[int, ...]:
        """The layers with a mixture of experts, of the side that has some.

        >>> from importlib.resources import files
        >>> Trace.load(str(files("qkv") / "demo" / "traces" / "cat-smollm2.safetensors")).expert_layers
        ()
        """
        return tuple(int(name.split(".")[1]) for name in self.routing if name.startswith(self._expert_side()))

    def experts(self, layer: int, *, part: str | None = None, batch: int = 0) -> Routed:
        """Which experts each token took in a layer, best first, and their shares.

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
        """The side of the model that has experts."""
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
        """Weights (N, M), or the rectangle of these rows and columns; the mean over heads if none is named.

        `bins` pools the whole of it to at most bins × bins cells (`pool` is mean, max or sum); `words` joins tokens to
        words, summing over keys and averaging over queries.
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
        """Where one query looks: its share of every key (M,)."""
        index = self.place(query, part, batch)
        return self.head(layer, head, part, batch).weights([index])[0].float().numpy()

    def column(self, layer: int, head: int, key: int | str, *, part: str | None = None, batch: int = 0) -> Floats:
        """Who looks at one key: its share in every query's row (N,)."""
        index = self.place(key, part, batch, keys=True)
        return self.head(layer, head, part, batch).column(index).float().numpy()

    def steps(
        self, layer: int, head: int, query: int | str | None = None, *, part: str | None = None, batch: int = 0
    ) -> Steps | MixerSteps:
        """The five steps in float64, of one head: of all its queries, or of one. A mixer's are `MixerSteps` of the text."""
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
        """The largest difference between the steps' output and what the fast kernel gives from the same q, k and v.

        Of one query, or of all; a long text's are compared on 64 of them, so that no n×n matrix is made.
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
        """How one query's q was turned by its position, where that is known: (D/2, 5), a row per pair of numbers:
        the angle in radians, the pair before, the pair after. A pair is (i, i + D/2).

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
        """What a head adds to the model's stream for one query: W_o's slice of this head times Σ w·v, (C,).

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
        """Value-weighted attention (N, M): each weight times the length of what that key would add to the stream.

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
        """Attention followed through all layers (N, N): half of each layer is its heads' mean, half the residual."""
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
        """The heads that link two tokens, strongest first: (layer, head, the weight that `from_` gives `to`)."""
        from .head_ranking import links

        part = self._part(part)
        query, key = self.place(from_, part, batch), self.place(to, part, batch, keys=True)
        return links(self, query, key, "tokens", part=part, batch=batch)[:most]

    def patterns(self, *, part: str | None = None, batch: int = 0) -> Patterns:
        """What each head does: previous token, first token, induction, …, with a score for each."""
        from ..study.patterns import patterns

        if self._part(part) == "mixers":
            raise Problem("patterns are of attention, whose rows are shares: choose another part than mixers")
        return patterns(self, part=part, batch=batch)

    def survey(self, part: str | None = None, progress: Progress | None = None) -> Survey:
        """One look at every head of a part: a small picture, its strongest link, how telling it is; remembered."""
        from ..study.survey import survey

        part = self._part(part)
        if part not in self._surveys:
            self._surveys[part] = survey(self, part, progress)
        return self._surveys[part]

    def head(self, layer: int, head: int, part: str | None = None, batch: int = 0) -> Head | MixerHead:
        """One head, to ask anything of; it remembers what was costly to compute."""
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
        """One head with its q, k and v; refuses one that was kept as weights alone."""
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
        """Are weights all that was kept (the eager road), without q, k and v?"""
        return all(call.q.shape[3] == 0 for calls in self.calls.values() for call in calls)

    def place(self, word: int | str, part: str | None = None, batch: int = 0, *, keys: bool = False) -> int:
        """The number of a token, given as a number or as its text."""
        tokens = self.tokens(part, batch, keys=keys)
        if isinstance(word, str):
            return tokens.find(word)
        if not -len(tokens) <= word < len(tokens):
            raise Problem("there is no token {place}: they count from 0 to {last}", place=word, last=len(tokens) - 1)
        return word % len(tokens)

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """One safetensors file, O(n·d); `half` keeps float16.

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
        """The other way."""
        from .trace_file import load

        return load(Path(path))

    def _repr_html_(self) -> str:
        """How a notebook shows it: the page, in a frame."""
        from ...draw.page import notebook_html

        return notebook_html(self)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part} {self.n_layer(part)} × {self.n_head(part)}" for part in self.parts)
        shapes = {len(tokens) for items in self.queries.values() for tokens in items}
        return f"<Trace of {self.model or 'a model'}: {sizes} heads, {'/'.join(map(str, sorted(shapes)))} tokens>"

    def _slice(self, part: str, layer: int, head: int) -> Tensor:
        """The columns of the output projection that are this head's: (C, D)."""
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
        """Where a layer of the model stands among those that attend."""
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
    """The problem of a layer that isn't there, or that has no attention (or is no mixer): it names those that have (are)."""
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
    """A map over groups of tokens: summed over the keys of a group, averaged over its queries.

    >>> join(np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]), [("ab", 0, 2), ("c", 2, 3)], [("ab", 0, 2), ("c", 2, 3)])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    summed = np.add.reduceat(table, [first for _, first, _ in keys], axis=1)
    counts = np.array([end - first for _, first, end in queries])[:, None]
    return np.add.reduceat(summed, [first for _, first, _ in queries], axis=0) / counts
