"""The gated delta rule as a layer, as in Qwen3-Next: writes replace the value of a key instead of adding to it.

    (q, k, v) = SiLU(convolution(W·x));  q and k normalised to length 1
    y = mix(q, k, v, log γ = −e^rate·softplus(…), write = β = σ(…))
    output = W_o·(RMSnorm(y)·SiLU(gate)), the norm per head

B batch, N tokens, C model width, H heads of values, P their width, G heads of q and k, D their width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import shapes
from ..attention.heads import check_input, check_sizes
from ..attention.norms import RMSNorm
from .convolution import CausalConvolution, convolve
from .hf_weights import copy_weights, split_groups
from .state_cache import StateCache, Storage, check_groups, mix_cached, read_mask

if TYPE_CHECKING:
    from ..attention.dispatch import MaskLike
    from ..attention.positions import Positions


class GatedDelta(nn.Module):
    """One gated delta layer, width → width; its state is H × D × P numbers for any length of text.

    width        C, of the input and the output
    n_head       H: heads of values
    n_key_head   G: heads of q and k, shared by groups of value heads; default n_head
    head_width   P: default width / n_head
    key_width    D: default head_width
    taps         of the causal convolution

    >>> _ = torch.manual_seed(0)
    >>> layer, x = GatedDelta(16, n_head=4, n_key_head=2), torch.randn(2, 5, 16)
    >>> layer(x).shape
    torch.Size([2, 5, 16])
    >>> cache = layer.new_cache(batch=2)
    >>> steps = [layer(x[:, i : i + 1], cache=cache) for i in range(5)]
    >>> bool(torch.allclose(torch.cat(steps, 1), layer(x), atol=1e-5)), cache.numbers
    (True, 320)
    """

    def __init__(
        self,
        width: int,
        n_head: int,
        n_key_head: int | None = None,
        head_width: int | None = None,
        key_width: int | None = None,
        *,
        taps: int = 4,
        eps: float = 1e-6,
        name: str | None = None,
    ) -> None:
        super().__init__()
        check_sizes(width=width, n_head=n_head, n_key_head=n_key_head, head_width=head_width)
        check_sizes(key_width=key_width, taps=taps)
        groups = n_head if n_key_head is None else n_key_head
        check_groups(n_head, groups)
        head_width = shapes.head_width(width, n_head) if head_width is None else head_width
        key_width = head_width if key_width is None else key_width
        self.width, self.n_head, self.groups, self.name = width, n_head, groups, name
        self.head_width, self.key_width = head_width, key_width
        self.parts = (groups * key_width, groups * key_width, n_head * head_width)  # q, k, v
        self.qkv = nn.Linear(width, sum(self.parts), bias=False)
        self.gate = nn.Linear(width, n_head * head_width, bias=False)
        self.rates = nn.Linear(width, 2 * n_head, bias=False)  # of writing and of decay
        self.convolution = CausalConvolution(sum(self.parts), taps, bias=False)
        # Initialised for training. transformers leaves ones, since it loads weights: the state would be lost at each token.
        steps = torch.exp(torch.empty(n_head).uniform_(math.log(0.001), math.log(0.1)))
        self.step_bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))  # softplus of it is `steps`
        self.rate = nn.Parameter(torch.empty(n_head).uniform_(0.01, 16).log())
        self.norm = RMSNorm(head_width, eps)
        self.out = nn.Linear(n_head * head_width, width, bias=False)

    def new_cache(self, batch: int, **where: Unpack[Storage]) -> StateCache:
        """Return a cache for this layer; its size doesn't depend on the text."""
        channels, taps = sum(self.parts), self.convolution.taps
        return StateCache(batch, self.n_head, self.key_width, self.head_width, channels=channels, taps=taps, **where)

    def forward(
        self, x: Tensor, mask: MaskLike = None, *, cache: StateCache | None = None, at: Positions | None = None
    ) -> Tensor:
        """x (B, N, C) → (B, N, C). `mask`: True/False per token (B, N), or one of causal, padding and documents.

        With a cache, x is only the new tokens. `at` is ignored: the layer has no positions.
        """
        check_input("x", x, self.width)
        keep, documents = read_mask(mask, x, cache)
        convolved, before = convolve(self.convolution, self.qkv(x), keep, documents, cache)
        q, k, v = convolved.split(self.parts, -1)
        q, k = (unit(t.unflatten(-1, (self.groups, -1))).transpose(1, 2) for t in (q, k))  # (B, G, N, D)
        v = v.unflatten(-1, (self.n_head, -1)).transpose(1, 2)  # (B, H, N, P)
        write, step = self.rates(x).transpose(1, 2).chunk(2, 1)  # (B, H, N)
        decay, write = F.softplus(step + self.step_bias[:, None]) * -self.rate.exp()[:, None], write.sigmoid()
        y = mix_cached(cache, before, q, k, v, decay, write=write, keep=keep, documents=documents, name=self.name)
        y = self.norm(y.transpose(1, 2)).flatten(2)  # (B, N, H·P)
        return self.out(y * F.silu(self.gate(x)))

    if TYPE_CHECKING:
        __call__ = forward

    @classmethod
    def from_transformers(cls, module: Any) -> GatedDelta:
        """Convert transformers' Qwen3NextGatedDeltaNet, with its weights.

        It interleaves q, k, v and gate per key head, and also writes and steps; here each is contiguous.

        >>> from transformers.models.qwen3_next import modeling_qwen3_next as qwen
        >>> config = qwen.Qwen3NextConfig(hidden_size=8, linear_num_key_heads=1, linear_num_value_heads=2)
        >>> GatedDelta.from_transformers(qwen.Qwen3NextGatedDeltaNet(config, 0)).n_head
        2
        """
        groups, keys, values = module.num_k_heads, module.head_k_dim, module.head_v_dim
        value_rows = module.num_v_heads // groups * values
        ours = cls(
            module.hidden_size,
            module.num_v_heads,
            groups,
            values,
            keys,
            taps=module.conv_kernel_size,
            eps=module.layer_norm_epsilon,
        )
        weights = dict(module.named_parameters())
        *qkv, gate = split_groups(weights.pop("in_proj_qkvz.weight"), groups, [keys, keys, value_rows, value_rows])
        rates = split_groups(weights.pop("in_proj_ba.weight"), groups, [module.num_v_heads // groups] * 2)
        weights |= {"qkv": torch.cat(qkv), "gate": gate, "rates": torch.cat(rates)}
        return copy_weights(
            ours, weights, NAMES | {name: name.partition(".")[0] for name in INTERLEAVED}, module.training
        )


INTERLEAVED = ("qkv.weight", "gate.weight", "rates.weight")  # interleaved by group in transformers' layers
NAMES = {
    "convolution.weight": "conv1d.weight",
    "step_bias": "dt_bias",
    "rate": "A_log",
    "norm.weight": "norm.weight",
    "out.weight": "out_proj.weight",
}


def unit(x: Tensor) -> Tensor:
    """Normalise vectors to length 1 (less for tiny vectors): x / √(|x|² + 10⁻⁶).

    >>> unit(torch.tensor([[3.0, 4.0]])).tolist()
    [[0.6..., 0.8...]]
    """
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)
