"""Arguments of a `mix` call, kept as references: any weight of its map can be computed later, with O(n·d) memory.

B batch, H heads, G groups of heads that share q and k, N tokens, D key width, P value width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ..attention import masks
from ..attention.formula import no_autocast, pick, take
from . import forms


@dataclass(frozen=True, eq=False, repr=False)
class Mixing:
    """Arguments of one `mix` call: references where they needed no change.

    >>> one = torch.ones(1, 1, 3, 1)
    >>> call = Mixing(one, one, one, torch.full((1, 1, 3), 0.5).log(), scale=1.0, name="decoder.0")
    >>> call
    <Mixing decoder.0: q (1, 1, 3, 1), v (1, 1, 3, 1), linear>
    >>> call.n_head, call.weights()[0, 0].tolist()
    (1, [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]])
    >>> call.only(heads=[0]).v.shape, call.mapped(torch.Tensor.double).v.dtype, call.carried() is None
    (torch.Size([1, 1, 3, 1]), torch.float64, True)
    >>> call.bias is None
    True
    >>> call.applied(call.table(), [0]).flatten().tolist(), call.allowed()[0, 0, 0].tolist()
    ([1.0, 1.5, 1.75], [True, False, False])
    """

    q: Tensor  # (B, G, N, D), after positions
    k: Tensor  # (B, G, N, D); 0 for tokens that are padding
    v: Tensor  # (B, H, N, P); 0 for tokens that are padding
    decay: Tensor  # (B, H, N): log γ of every token; 0 for padding
    scale: float
    write: Tensor | None = None  # (B, H, N): β of the delta rule; None: linear attention
    state: Tensor | None = None  # (B, H, D, P): initial state
    keep: Tensor | None = None  # (B, N): True = a real token
    resets: Tensor | None = None  # (B, N): True where a document begins
    name: str | None = None  # of the layer that called

    @property
    def n_head(self) -> int:
        """Number of value heads; the heads of a group share q and k."""
        return self.v.shape[1]

    def run(self, form: str, chunk: int) -> tuple[Tensor, Tensor]:
        """Compute output (B, H, N, P) and state (B, H, D, P) with this form, in float32 or better.

        >>> one = torch.ones(1, 1, 2, 1)
        >>> Mixing(one, one, one, torch.zeros(1, 1, 2), scale=1.0).run("recurrent", 0)[0].flatten().tolist()
        [1.0, 2.0]
        """
        exact = (
            self.v.dtype if self.v.dtype.itemsize > 2 else torch.float32
        )  # in half precision a long sum stops growing
        q, k, v, decay = (t.to(exact) for t in (self.q, self.k, self.v, self.decay))
        write = None if self.write is None else self.write.to(exact)
        state = v.new_zeros(*v.shape[:2], k.shape[3], v.shape[3]) if self.state is None else self.state.to(v.dtype)
        with no_autocast(v):
            if form == "recurrent":
                return forms.recurrent(q, k, v, decay, write, state, self.scale, self.resets)
            return forms.chunkwise(q, k, v, decay, write, state, self.scale, chunk, self.resets)

    def weights(self, heads: Sequence[int] | None = None) -> Tensor:
        """Return the map of these heads (default: all), (B, heads, N, N): signed, and rows don't sum to 1."""
        with torch.no_grad():
            return self.only(heads)._map()

    def _map(self) -> Tensor:
        """Return the map, which is the output for unit values."""
        batch, heads, n, _ = self.v.shape
        unit = torch.eye(n, dtype=self.v.dtype, device=self.v.device).expand(batch, heads, n, n)
        return replace(self, v=unit, state=None).run("parallel", max(n, 1))[0]

    def carried(self) -> Tensor | None:
        """Return the contribution of the initial state to the output, (B, H, N, P): output = weights·v + this."""
        if self.state is None:
            return None
        return replace(self, v=torch.zeros_like(self.v)).run("chunkwise", forms.CHUNK)[0]

    def table(self) -> Tensor:
        """Return the map with its gradient, as passed to edits: (B, H, N, M). An initial state adds a first column of 1."""
        shares = self._map()
        return shares if self.state is None else torch.nn.functional.pad(shares, (1, 0), value=1.0)

    def applied(self, table: Tensor, heads: Sequence[int]) -> Tensor:
        """Return the output of these heads for the map in `table`."""
        v, before = self.v[:, list(heads)].to(table.dtype), self.carried()
        if before is None:
            return table @ v
        return table[..., 1:] @ v + table[..., :1] * before[:, list(heads)]

    def allowed(self) -> Tensor:
        """Return the mask of `table` as a bool tensor that broadcasts to (B, H, N, M)."""
        batch, _, n, _ = self.v.shape
        allowed = self.mask.tensor(n, n, batch=batch, heads=1, device=self.v.device)
        if self.state is None:
            return allowed
        first = torch.ones(batch, n, dtype=torch.bool, device=self.v.device)
        if self.resets is not None:
            first = self.resets.cumsum(1) == 0
        return torch.cat([first[:, None, :, None], allowed.expand(batch, 1, n, n)], 3)

    @cached_property
    def mask(self) -> masks.Mask:
        """Which token may contribute to which, as a mask.

        >>> one = torch.ones(1, 1, 2, 1)
        >>> Mixing(one, one, one, torch.zeros(1, 1, 2), scale=1.0).mask
        causal()
        """
        rule = masks.causal()
        if self.resets is not None:
            rule = rule & masks.documents(self.resets.cumsum(1))
        return rule if self.keep is None else rule & masks.padding(self.keep)

    @property
    def bias(self) -> None:
        """Always None: unlike attention, mixers have no bias."""

    def only(self, heads: Sequence[int] | None = None, items: Sequence[int] | None = None) -> Mixing:
        """Return the call restricted to these heads and batch items (default: all)."""
        per_group = self.v.shape[1] // self.q.shape[1]
        groups = None if heads is None else [head // per_group for head in heads]

        q, k = (pick(t, items, groups) for t in (self.q, self.k))
        v, decay = (pick(t, items, heads) for t in (self.v, self.decay))
        write, state = (None if t is None else pick(t, items, heads) for t in (self.write, self.state))
        keep, resets = (None if t is None else take(t, items, 0) for t in (self.keep, self.resets))
        return Mixing(q, k, v, decay, self.scale, write, state, keep, resets, self.name)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Mixing:
        """Return the call with `change` (move, cast, detach) applied to its tensors."""
        q, k, v, decay = (change(t) for t in (self.q, self.k, self.v, self.decay))
        write, state = (None if t is None else change(t) for t in (self.write, self.state))
        return replace(self, q=q, k=k, v=v, decay=decay, write=write, state=state)

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        kind = "linear" if self.write is None else "delta"
        return f"<Mixing {name}q {tuple(self.q.shape)}, v {tuple(self.v.shape)}, {kind}>"
