"""LLaMA attention with a growing KV cache."""
import torch
from torch import nn
import torch.nn.functional as F


def rope(x, cos, sin):
    # x: (B, H, T, D)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class CachedAttention(nn.Module):
    def __init__(self, dim=64, heads=4, max_len=256):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        inv = 10000.0 ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        ang = torch.outer(torch.arange(max_len).float(), inv)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)
        self.register_buffer("causal", torch.ones(max_len, max_len, dtype=torch.bool).tril(), persistent=False)
        self.reset()

    def reset(self):
        self.k_cache = self.v_cache = None

    def forward(self, x, use_cache=False):
        B, T, C = x.shape
        q, k, v = (w(x).view(B, T, self.heads, self.hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        past = self.k_cache.size(2) if use_cache and self.k_cache is not None else 0
        cos, sin = self.cos[:T], self.sin[:T]
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        if use_cache:
            if past:
                k = torch.cat([self.k_cache, k], dim=2)
                v = torch.cat([self.v_cache, v], dim=2)
            self.k_cache, self.v_cache = k, v
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.causal[past:past + T, :past + T])
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


if __name__ == "__main__":
    attn = CachedAttention().eval()
    x = torch.randn(1, 6, 64)
    with torch.no_grad():
        print(attn(x[:, :5], use_cache=True).shape, attn(x[:, 5:], use_cache=True).shape)
