"""Retention (Sun and others, 2023): attention without softmax, with a fixed decay per head.

    q, k = rotary(W·x);  γ_h = 1 − 2^(−5 − h)
    output = W_o·(groupnorm(mix(q, k, v, log γ))·SiLU(W_g·x)), the norm per head

The paper's xPos is rotary positions with the decay as its scaling. The paper's normalisations of scores multiply each
row by a factor, which the norm cancels, so they are omitted.

B batch, N tokens, C model width, H heads, D key width, P value width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import shapes
from ..attention.heads import check_input, check_sizes
from ..attention.positions import Positions, Rotary
from .state_cache import StateCache, Storage, mix_cached, read_mask

if TYPE_CHECKING:
    from ..attention.dispatch import MaskLike


class Retention(nn.Module):
    """One layer of multi-scale retention, width → width; its state is H × D × P numbers for any length of text.

    width        C, of the input and the output
    n_head       H
    key_width    D: default width / n_head
    value_width  P: default twice the key width, as in the paper

    >>> _ = torch.manual_seed(0)
    >>> layer, x = Retention(16, n_head=4), torch.randn(2, 5, 16)
    >>> layer(x).shape, layer.decay.exp().tolist()[:2]
    (torch.Size([2, 5, 16]), [0.96875, 0.984375])
    >>> cache = layer.new_cache(batch=2)
    >>> steps = [layer(x[:, i : i + 1], cache=cache) for i in range(5)]
    >>> bool(torch.allclose(torch.cat(steps, 1), layer(x), atol=1e-5)), cache.numbers
    (True, 256)
    """

    def __init__(
        self,
        width: int,
        n_head: int,
        key_width: int | None = None,
        value_width: int | None = None,
        *,
        bias: bool = False,
        base: float = 10000.0,
        eps: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_sizes(width=width, n_head=n_head, key_width=key_width, value_width=value_width)
        key_width = shapes.head_width(width, n_head) if key_width is None else key_width
        value_width = 2 * key_width if value_width is None else value_width
        self.width, self.n_head, self.name = width, n_head, name
        self.key_width, self.value_width = key_width, value_width
        self.q = nn.Linear(width, n_head * key_width, bias=bias)
        self.k = nn.Linear(width, n_head * key_width, bias=bias)
        self.v = nn.Linear(width, n_head * value_width, bias=bias)
        self.gate = nn.Linear(width, n_head * value_width, bias=bias)
        self.norm = nn.GroupNorm(n_head, n_head * value_width, eps)
        self.out = nn.Linear(n_head * value_width, width, bias=bias)
        self.rotary = Rotary(key_width, base)

    @property
    def decay(self) -> Tensor:
        """log γ of each head, (H,): γ = 1 − 1/32 for the first, and 1 − γ halves with each further head.

        >>> Retention(4, n_head=2).decay.exp().tolist()
        [0.96875, 0.984375]
        """
        heads = torch.arange(self.n_head, dtype=torch.float64, device=self.q.weight.device)
        return torch.log1p(-(2.0 ** (-5 - heads))).to(self.q.weight.dtype)

    def new_cache(self, batch: int, **where: Unpack[Storage]) -> StateCache:
        """Return a cache for this layer; its size doesn't depend on the text."""
        return StateCache(batch, self.n_head, self.key_width, self.value_width, **where)

    def forward(
        self, x: Tensor, mask: MaskLike = None, *, cache: StateCache | None = None, at: Positions | None = None
    ) -> Tensor:
        """x (B, N, C) → (B, N, C). `mask`: True/False per token (B, N), or one of causal, padding and documents.

        With a cache, x is only the new tokens. `at` is the position of the tokens of x, if they aren't consecutive.
        """
        check_input("x", x, self.width)
        keep, documents = read_mask(mask, x, cache)
        here = at if at is not None else 0 if cache is None else cache.at(x.shape[1])
        q, k, v = (part(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = self.rotary(q, here), self.rotary(k, here)
        y = mix_cached(cache, x[..., :0], q, k, v, self.decay, keep=keep, documents=documents, name=self.name)
        y = self.norm(y.transpose(1, 2).flatten(0, 1).flatten(1)).view(*x.shape[:2], -1)  # (B, N, H·P)
        return self.out(y * F.silu(self.gate(x)))

    if TYPE_CHECKING:
        __call__ = forward
