"""Multi-head latent attention (MLA): keys and values are computed from a small vector per token, the only one cached.

    c = norm(x·W_c)              the latent, `rank` numbers per token: stored in the cache
    k = [c·W_k ; rotary(x·W_r)]  per head D numbers from the latent, plus `rope_width` shared by all heads
    v = c·W_v

Since q·(c·W_k) = (q·W_kᵀ)·c, W_k can be applied to the query and W_v after the sum, so that queries attend to the latents
directly: one shared "head" of keys. This is the absorbed path. It equals the plain one and is faster for decoding.

B batch, H heads, N queries, M keys, D head width (without rotary), R rank, C model width.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ..i18n import Problem
from . import masks
from .cache import KVCache
from .dispatch import MaskLike, attend
from .heads import check_input, check_sizes
from .norms import RMSNorm
from .positions import Positions, Rotary


class LatentAttention(nn.Module):
    """Attention with compressed keys and values and a decoupled rotary key, as in DeepSeek-V2 and V3.

    >>> mla = LatentAttention(64, 4, rank=16, head_width=8, rope_width=4)
    >>> cache = mla.new_cache(batch=1, capacity=10)
    >>> mla(torch.randn(1, 3, 64), mask=masks.causal(), cache=cache).shape, cache.k.shape
    (torch.Size([1, 3, 64]), torch.Size([1, 1, 10, 20]))
    """

    def __init__(
        self,
        width: int,
        n_head: int,
        *,
        rank: int,
        head_width: int,
        rope_width: int,
        value_width: int | None = None,
        q_rank: int | None = None,
        bias: bool = False,
        base: float = 10000.0,
        scaling: dict[str, Any] | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_sizes(width=width, n_head=n_head, rank=rank, head_width=head_width, rope_width=rope_width)
        check_sizes(value_width=value_width, q_rank=q_rank)
        self.width, self.n_head, self.rank = width, n_head, rank
        self.head_width, self.rope_width = head_width, rope_width
        self.value_width = head_width if value_width is None else value_width
        self.scale = (head_width + rope_width) ** -0.5 if scale is None else scale
        self.dropout, self.name = dropout, name

        if q_rank is None:
            self.q: nn.Module = nn.Linear(width, n_head * (head_width + rope_width), bias=False)
        else:
            self.q = nn.Sequential(
                nn.Linear(width, q_rank, bias=bias),
                RMSNorm(q_rank),
                nn.Linear(q_rank, n_head * (head_width + rope_width), bias=False),
            )
        self.compress = nn.Linear(width, rank + rope_width, bias=bias)
        self.norm = RMSNorm(rank)
        self.expand = nn.Linear(rank, n_head * (head_width + self.value_width), bias=False)
        self.out = nn.Linear(n_head * self.value_width, width, bias=bias)
        self.rotary = Rotary(rope_width, base, scaling=scaling, interleaved=True)

    def new_cache(self, batch: int, capacity: int, **where: Any) -> KVCache:
        """Return a cache for the latent and the rotary key: rank + rope_width numbers per token for all heads."""
        return KVCache(batch, 1, capacity, self.rank + self.rope_width, value_width=0, **where)

    def forward(
        self,
        x: Tensor,
        mask: MaskLike = None,
        *,
        cache: KVCache | None = None,
        at: Positions | None = None,
        weights: bool = False,
        absorbed: bool | None = None,
    ) -> Any:
        """x (B, N, C) → (B, N, C); `absorbed` selects the path, by default absorbed for single tokens with a cache.

        `at` is the position of the tokens of x, if they aren't consecutive.
        """
        check_input("x", x, self.width)
        n = x.shape[1]
        if cache is not None and not isinstance(cache, KVCache):
            raise Problem(
                "latent attention keeps latents: make its cache with new_cache(), not {kind}", kind=type(cache).__name__
            )
        rule = masks.resolve(mask)
        start = 0 if cache is None else cache.at(n)
        at = start if at is None else at

        q = self.q(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2)  # (B, H, N, D + rope)
        q_plain, q_rotary = q.split([self.head_width, self.rope_width], -1)
        q_rotary = self.rotary(q_rotary, at)
        latent, k_rotary = self.compress(x).split([self.rank, self.rope_width], -1)
        stored = torch.cat([self.norm(latent)[:, None], self.rotary(k_rotary[:, None], at)], -1)  # (B, 1, N, R + rope)
        if cache is not None:
            stored, _ = cache.append(stored, stored[..., :0])
            rule = cache.place(rule, start)
        latent = stored[..., : self.rank]  # (B, 1, M, R)

        matrix = self.expand.weight.unflatten(0, (self.n_head, -1))  # (H, D + Dv, R)
        if absorbed if absorbed is not None else cache is not None and n == 1:
            q = torch.cat([q_plain @ matrix[:, : self.head_width], q_rotary], -1)  # (B, H, N, R + rope)
            k, v = stored, latent
        else:
            expanded = self.expand(latent[:, 0]).unflatten(-1, (self.n_head, -1)).transpose(1, 2)  # (B, H, M, D + Dv)
            k_plain, v = expanded.split([self.head_width, self.value_width], -1)
            k = torch.cat([k_plain, stored[..., self.rank :].expand(-1, self.n_head, -1, -1)], -1)
            q = torch.cat([q_plain, q_rotary], -1)
        dropout = self.dropout if self.training else 0.0
        result = attend(q, k, v, rule, scale=self.scale, dropout=dropout, weights=weights, name=self.name)
        output, shares = result if isinstance(result, tuple) else (result, None)
        if v is latent:
            output = output @ matrix[:, self.head_width :].transpose(-1, -2)  # (B, H, N, R) → (B, H, N, Dv)
        merged = self.out(output.transpose(1, 2).flatten(2))
        return (merged, shares) if weights else merged
