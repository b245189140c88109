import math
import torch
from torch import nn


class StaticCacheAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, max_batch: int = 4, max_len: int = 64):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        shape = (max_batch, max_len, n_heads, self.head_dim)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)

    @torch.no_grad()
    def forward(self, x, start_pos: int = 0):
        b, n, _ = x.shape
        end = start_pos + n
        q = self.wq(x).view(b, n, self.n_heads, self.head_dim)
        self.cache_k[:b, start_pos:end] = self.wk(x).view(b, n, self.n_heads, self.head_dim)
        self.cache_v[:b, start_pos:end] = self.wv(x).view(b, n, self.n_heads, self.head_dim)
        keys, values = self.cache_k[:b, :end], self.cache_v[:b, :end]
        scores = torch.einsum("bqhd,bkhd->bhqk", q, keys) / math.sqrt(self.head_dim)
        # causal: query i sees keys up to i
        allowed = torch.arange(end)[None, :] <= torch.arange(n)[:, None]
        scores = scores.masked_fill(~allowed, float("-inf"))
        out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), values)
        return self.wo(out.reshape(b, n, -1))


att = StaticCacheAttention(32, 4)
att(torch.randn(1, 4, 32), 0)
print(att(torch.randn(1, 1, 32), 4).shape)
