import torch
from torch import nn, einsum


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


def max_neg_value(tensor):
    return -torch.finfo(tensor.dtype).max


class Attention(nn.Module):
    def __init__(self, dim, *, dim_head=64, heads=8, causal=False, dropout=0.0):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads = heads
        self.causal = causal
        self.scale = dim ** -0.5

        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(dim, inner_dim * 2, bias=False)
        self.attn_drop = nn.Dropout(dropout)
        self.to_out = nn.Linear(inner_dim, dim)

    def split_heads(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.heads, -1).transpose(1, 2)

    def forward(self, x, context=None, mask=None):
        kv_input = default(context, x)
        q = self.to_q(x)
        k, v = self.to_kv(kv_input).chunk(2, dim=-1)
        q, k, v = map(self.split_heads, (q, k, v))

        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale

        if exists(mask):
            # mask: (b, j), True for tokens to keep
            sim = sim.masked_fill(~mask[:, None, None, :], max_neg_value(sim))

        if self.causal:
            i, j = sim.shape[-2:]
            causal_mask = torch.ones((i, j), device=x.device, dtype=torch.bool).triu(j - i + 1)
            sim = sim.masked_fill(causal_mask, max_neg_value(sim))

        attn = self.attn_drop(sim.softmax(dim=-1))
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        out = out.transpose(1, 2).flatten(2)
        return self.to_out(out)
