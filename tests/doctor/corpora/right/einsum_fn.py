"""one-liners"""

from math import sqrt

from torch import einsum, softmax


def attn4d(q, k, v, mask=None):
    s = einsum("bhid,bhjd->bhij", q, k) / sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(mask == 0, -1e18)
    return einsum("bhij,bhjd->bhid", softmax(s, -1), v)


def attn3d(q, k, v, mask=None):
    "mask: additive"
    s = einsum("bid,bjd->bij", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        s = s + mask
    return einsum("bij,bjd->bid", softmax(s, -1), v), s


def causal_attention(q, k, v):
    n = q.shape[-2]
    s = q @ k.transpose(-1, -2) / sqrt(q.shape[-1])
    s = s.masked_fill(s.new_ones(n, n).triu(1).bool(), -float("inf"))
    return softmax(s, dim=-1) @ v


def attention_blhd(q, k, v):
    """(batch, length, heads, dim), like flash-attn wants it"""
    w = softmax(einsum("blhd,bmhd->bhlm", q, k) / sqrt(q.shape[-1]), dim=-1)
    return einsum("bhlm,bmhd->blhd", w, v)


def attention_with_scale(q, k, v, scale):
    return softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v
