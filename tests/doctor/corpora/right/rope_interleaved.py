"""Rotary position embedding, pairs (0,1), (2,3), ... as in the RoFormer paper."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_seq_len=512, base=10_000):
        super().__init__()
        theta = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angles = torch.arange(max_seq_len, dtype=torch.float64)[:, None] * theta[None, :]
        angles = angles.repeat_interleave(2, dim=-1)  # θ0 θ0 θ1 θ1 ...
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    @staticmethod
    def rotate_every_two(x):
        x1, x2 = x[..., ::2], x[..., 1::2]
        return torch.stack((-x2, x1), dim=-1).flatten(-2)

    def forward(self, x, offset=0):
        """x: (batch, heads, seq, dim)"""
        n = x.shape[-2]
        cos, sin = self.cos[offset : offset + n].to(x.dtype), self.sin[offset : offset + n].to(x.dtype)
        return x * cos + self.rotate_every_two(x) * sin


class RoPEAttention(nn.Module):
    def __init__(self, d_model, n_heads, causal=True):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = d_model // n_heads
        self.causal = causal
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model, bias=False)
        self.rope = RotaryEmbedding(self.head_dim)

    def forward(self, x):
        B, T, C = x.shape
        q = self.wq(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        q, k = self.rope(q), self.rope(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))
