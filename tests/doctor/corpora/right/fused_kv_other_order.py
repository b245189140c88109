"""q is its own projection, keys and values share one (v first!)."""

import torch
from torch import nn, einsum
from torch.nn.functional import softmax


class CrossAttention(nn.Module):
    def __init__(self, dim, context_dim=None, heads=8, dim_head=64):
        super().__init__()
        inner = heads * dim_head
        context_dim = dim if context_dim is None else context_dim
        self.h = heads
        self.scale = dim_head**-0.5
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_vk = nn.Linear(context_dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def heads_apart(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.h, -1).movedim(2, 1)

    def forward(self, x, context=None, context_mask=None):
        """context_mask: (b, m) with True for real tokens"""
        context = x if context is None else context
        q = self.heads_apart(self.to_q(x))
        v, k = (self.heads_apart(t) for t in self.to_vk(context).chunk(2, dim=-1))

        sim = einsum("b h i d, b h j d -> b h i j", q * self.scale, k)
        if context_mask is not None:
            sim = sim.masked_fill(~context_mask[:, None, None, :].bool(), -torch.finfo(sim.dtype).max)
        attn = softmax(sim, dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.movedim(1, 2).flatten(2))
