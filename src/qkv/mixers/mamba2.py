"""Mamba-2: each token determines how strongly it writes to the state and how much the state decays.

    z, (x, b, c), Δ = W·input;  causal convolution and SiLU of x, b, c
    y = mix(q = c, k = b, v = Δ·x, log γ = −Δ·e^rate) + skip·x        Δ = softplus(…), one per token and head
    output = W_o·RMSnorm(y·SiLU(z))

B batch, N tokens, C model width, H heads, P head width, G groups of heads that share b and c, D key width (Mamba's state).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention.heads import check_input, check_sizes
from ..attention.norms import RMSNorm
from .convolution import CausalConvolution, convolve
from .hf_weights import copy_weights
from .state_cache import StateCache, Storage, check_groups, mix_cached, read_mask

if TYPE_CHECKING:
    from ..attention.dispatch import MaskLike
    from ..attention.positions import Positions


class Mamba2(nn.Module):
    """One Mamba-2 layer, width → width; its state is H × D × P numbers for any length of text.

    width       C, of the input and the output
    n_head      H: default 2·width / head_width
    head_width  P
    key_width   D: Mamba's state size
    groups      G: number of b and c, each shared by a group of heads
    taps        of the causal convolution
    limits      Δ is clamped to this range

    >>> _ = torch.manual_seed(0)
    >>> layer, x = Mamba2(16, head_width=8, key_width=4), torch.randn(2, 5, 16)
    >>> layer(x).shape, layer.n_head
    (torch.Size([2, 5, 16]), 4)
    >>> cache = layer.new_cache(batch=2)
    >>> steps = [layer(x[:, i : i + 1], cache=cache) for i in range(5)]
    >>> bool(torch.allclose(torch.cat(steps, 1), layer(x), atol=1e-5)), cache.numbers
    (True, 496)
    """

    def __init__(
        self,
        width: int,
        n_head: int | None = None,
        head_width: int = 64,
        *,
        key_width: int = 128,
        groups: int = 1,
        taps: int = 4,
        bias: bool = False,
        convolution_bias: bool = True,
        limits: tuple[float, float] = (0.0, math.inf),
        eps: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_sizes(width=width, n_head=n_head, head_width=head_width, key_width=key_width, groups=groups, taps=taps)
        n_head = max(2 * width // head_width, 1) if n_head is None else n_head
        check_groups(n_head, groups)
        self.width, self.n_head, self.head_width, self.key_width = width, n_head, head_width, key_width
        self.groups, self.limits, self.name = groups, limits, name
        inner, shared = n_head * head_width, groups * key_width
        self.parts = (inner, inner + 2 * shared, n_head)  # z; x, b and c; Δ
        self.into = nn.Linear(width, sum(self.parts), bias=bias)
        self.convolution = CausalConvolution(self.parts[1], taps, convolution_bias)
        steps = torch.exp(torch.empty(n_head).uniform_(math.log(0.001), math.log(0.1)))
        self.step_bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))  # softplus of it is `steps`
        self.rate = nn.Parameter(torch.arange(1, n_head + 1).float().log())
        self.skip = nn.Parameter(torch.ones(n_head))
        self.norm = RMSNorm(inner, eps)
        self.out = nn.Linear(inner, width, bias=bias)

    def new_cache(self, batch: int, **where: Unpack[Storage]) -> StateCache:
        """Return a cache for this layer; its size doesn't depend on the text."""
        channels, taps = self.parts[1], self.convolution.taps
        return StateCache(batch, self.n_head, self.key_width, self.head_width, channels=channels, taps=taps, **where)

    def forward(
        self, x: Tensor, mask: MaskLike = None, *, cache: StateCache | None = None, at: Positions | None = None
    ) -> Tensor:
        """x (B, N, C) → (B, N, C). `mask`: True/False per token (B, N), or one of causal, padding and documents.

        With a cache, x is only the new tokens. `at` is ignored: the layer has no positions.
        """
        check_input("x", x, self.width)
        keep, documents = read_mask(mask, x, cache)
        gate, inputs, step = self.into(x).split(self.parts, -1)
        convolved, before = convolve(self.convolution, inputs, keep, documents, cache)
        shared = self.groups * self.key_width
        v, k, q = convolved.split([self.n_head * self.head_width, shared, shared], -1)
        v = v.unflatten(-1, (self.n_head, -1)).transpose(1, 2)  # (B, H, N, P)
        q, k = (t.unflatten(-1, (self.groups, -1)).transpose(1, 2) for t in (q, k))  # (B, G, N, D)
        step = F.softplus(step + self.step_bias).transpose(1, 2)  # (B, H, N)
        if self.limits != (0.0, math.inf):
            step = step.clamp(*self.limits)
        decay = step * -self.rate.exp()[:, None]
        written = v * step[..., None]
        y = mix_cached(cache, before, q, k, written, decay, keep=keep, documents=documents, scale=1.0, name=self.name)
        y = torch.addcmul(y, v, self.skip[:, None, None]).transpose(1, 2).flatten(2)  # (B, N, H·P)
        return self.out(self.norm(y * F.silu(gate)))

    if TYPE_CHECKING:
        __call__ = forward

    @classmethod
    def from_transformers(cls, module: Any) -> Mamba2:
        """Convert transformers' Mamba2Mixer or BambaMixer, with its weights.

        >>> from transformers.models.mamba2.modeling_mamba2 import Mamba2Config, Mamba2Mixer
        >>> config = Mamba2Config(hidden_size=8, num_heads=4, head_dim=4, state_size=3, n_groups=2)
        >>> Mamba2.from_transformers(Mamba2Mixer(config, 0)).n_head
        4
        """
        ours = cls(
            module.hidden_size,
            module.num_heads,
            module.head_dim,
            key_width=module.ssm_state_size,
            groups=module.n_groups,
            taps=module.conv_kernel_size,
            bias=module.in_proj.bias is not None,
            convolution_bias=module.conv1d.bias is not None,
            limits=tuple(module.time_step_limit),
            eps=module.norm.variance_epsilon,
        )
        return copy_weights(ours, dict(module.named_parameters()), NAMES, module.training)


NAMES = {
    "into.weight": "in_proj.weight",
    "into.bias": "in_proj.bias",
    "convolution.weight": "conv1d.weight",
    "convolution.bias": "conv1d.bias",
    "step_bias": "dt_bias",
    "rate": "A_log",
    "skip": "D",
    "norm.weight": "norm.weight",
    "out.weight": "out_proj.weight",
    "out.bias": "out_proj.bias",
}
