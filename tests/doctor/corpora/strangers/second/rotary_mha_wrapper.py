import math
import torch
import torch.nn as nn


def build_rope_cache(seq_len, width, base=10000):
    inv = 1.0 / base ** (torch.arange(0, width, 2).float() / width)
    t = torch.arange(seq_len).float()
    emb = torch.cat([torch.outer(t, inv)] * 2, dim=-1)
    return emb.cos(), emb.sin()


def rope(x, cos, sin):
    h = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., h:], x[..., :h]], -1) * sin


class RotaryMHA(nn.Module):
    def __init__(self, embed_dim, num_heads, max_len=128):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)
        cos, sin = build_rope_cache(max_len, embed_dim)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, x):
        b, n, e = x.shape
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        q = rope(q, self.cos[:n], self.sin[:n])
        k = rope(k, self.cos[:n], self.sin[:n])
        q = q.reshape(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        k = k.reshape(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        v = v.reshape(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.head_dim), dim=-1)
        return self.o_proj((w @ v).transpose(1, 2).reshape(b, n, e))


layer = RotaryMHA(48, 6)
print(layer(torch.randn(2, 13, 48)).shape)
