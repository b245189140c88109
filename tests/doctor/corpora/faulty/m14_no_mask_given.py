"""A tiny decoder-only language model on top of einops-like reshapes, without einops."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, *, dim, heads=8, dim_head=16, causal=True):
        super().__init__()
        self.heads = heads
        self.dim_head = dim_head
        self.causal = causal
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_k = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_v = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (
            f(x).unflatten(-1, (self.heads, self.dim_head)).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v)
        )
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class LM(nn.Module):
    def __init__(self, num_tokens, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(num_tokens, dim)
        self.layers = nn.ModuleList([Attention(dim=dim) for _ in range(depth)])
        self.to_logits = nn.Linear(dim, num_tokens)

    def forward(self, ids):
        x = self.embed(ids)
        for attn in self.layers:
            x = x + attn(x)
        return self.to_logits(x)
