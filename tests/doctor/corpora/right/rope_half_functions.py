import torch
from torch import Tensor


def build_rope_cache(seq_len: int, head_dim: int, base: float = 10000.0):
    """returns cos, sin of shape (seq_len, head_dim // 2)"""
    assert head_dim % 2 == 0
    i = torch.arange(head_dim // 2, dtype=torch.float64)
    inv = torch.exp(-2 * i / head_dim * torch.log(torch.tensor(base, dtype=torch.float64)))
    ang = torch.outer(torch.arange(seq_len, dtype=torch.float64), inv)
    return torch.cos(ang), torch.sin(ang)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    # x (B, H, T, D): first half and second half make the pairs
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def apply_rope(x: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary embedding for x of shape (B, H, T, D), positions 0..T-1"""
    cos, sin = build_rope_cache(x.shape[-2], x.shape[-1], base)
    return rope(x, cos, sin)


def rotary_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    q, k = apply_rope(q), apply_rope(k)
    s = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        n, m = s.shape[-2:]
        s = s.masked_fill(torch.ones(n, m, dtype=torch.bool).triu(1), float("-inf"))
    return s.softmax(-1) @ v
