import math

import torch
from torch import nn


class GQAttention(nn.Module):
    """Grouped query attention with one fused projection [q | k | v]."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.d_head = d_model // n_heads
        self.q_dim = n_heads * self.d_head
        self.kv_dim = n_kv_heads * self.d_head
        self.qkv = nn.Linear(d_model, self.q_dim + 2 * self.kv_dim, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        B, N, _ = x.shape
        qkv = self.qkv(x)
        q = qkv[..., : self.q_dim]
        k = qkv[..., self.kv_dim : 2 * self.kv_dim]
        v = qkv[..., 2 * self.kv_dim : 3 * self.kv_dim]

        q = q.reshape(B, N, self.n_heads, self.d_head).transpose(1, 2)
        k = k.reshape(B, N, self.n_kv_heads, self.d_head).transpose(1, 2)
        v = v.reshape(B, N, self.n_kv_heads, self.d_head).transpose(1, 2)
        groups = self.n_heads // self.n_kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)

        att = torch.softmax(q @ k.mT / math.sqrt(self.d_head), dim=-1)
        return self.out((att @ v).transpose(1, 2).reshape(B, N, -1))


if __name__ == "__main__":
    print(GQAttention(64, 8, 2)(torch.randn(2, 5, 64)).shape)
