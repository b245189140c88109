import math
import torch
import torch.nn as nn


class MultiQueryAttention(nn.Module):
    """Fast Transformer Decoding: One Write-Head is All You Need."""

    def __init__(self, hidden, n_heads, attn_pdrop=0.0):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, hidden // n_heads
        # q for every head, a single k and v
        self.Wqkv = nn.Linear(hidden, hidden + 2 * self.head_dim)
        self.out_proj = nn.Linear(hidden, hidden)
        self.pdrop = nn.Dropout(attn_pdrop)

    def forward(self, x, key_padding_mask=None, is_causal=True):
        b, s, c = x.shape
        q, k, v = self.Wqkv(x).split([c, self.head_dim, self.head_dim], dim=2)
        q = q.view(b, s, self.n_heads, self.head_dim).permute(0, 2, 1, 3)   # b h s d
        k = k.unsqueeze(1).transpose(-1, -2)                               # b 1 d s
        v = v.unsqueeze(1)                                                 # b 1 s d
        w = q.matmul(k) / math.sqrt(self.head_dim)
        min_val = torch.finfo(w.dtype).min
        if key_padding_mask is not None:                                   # True = real token
            w = w.masked_fill(~key_padding_mask.view(b, 1, 1, s), min_val)
        if is_causal:
            block = torch.ones(s, s, dtype=torch.bool).tril().logical_not()
            w = w.masked_fill(block.view(1, 1, s, s), min_val)
        w = self.pdrop(torch.softmax(w, dim=-1))
        out = w.matmul(v).permute(0, 2, 1, 3).reshape(b, s, c)
        return self.out_proj(out)
