from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LlamaConfig:
    vocab: int = 50
    dim: int = 48
    layers: int = 2
    heads: int = 6
    kv_heads: int = 3
    max_len: int = 32
    theta: float = 500000.0


class Attention(nn.Module):
    def __init__(self, c: LlamaConfig):
        super().__init__()
        self.c, self.hd = c, c.dim // c.heads
        self.wq = nn.Linear(c.dim, c.heads * self.hd, bias=False)
        self.wk = nn.Linear(c.dim, c.kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(c.dim, c.kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(c.heads * self.hd, c.dim, bias=False)
        f = c.theta ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        a = torch.outer(torch.arange(c.max_len).float(), f)
        self.register_buffer("cos", a.cos(), persistent=False)
        self.register_buffer("sin", a.sin(), persistent=False)

    def rot(self, x):
        n = x.size(-2)
        x1, x2 = x.chunk(2, dim=-1)
        c, s = self.cos[:n], self.sin[:n]
        return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], dim=-1)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.c.heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, T, self.c.kv_heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, T, self.c.kv_heads, self.hd).transpose(1, 2)
        q, k = self.rot(q), self.rot(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))


class TransformerBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = 4 * c.dim
        self.attn_norm, self.ffn_norm = nn.RMSNorm(c.dim), nn.RMSNorm(c.dim)
        self.attn = Attention(c)
        self.w1, self.w3 = nn.Linear(c.dim, h, bias=False), nn.Linear(c.dim, h, bias=False)
        self.w2 = nn.Linear(h, c.dim, bias=False)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    def __init__(self, c=LlamaConfig()):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, c.dim)
        self.blocks = nn.ModuleList(TransformerBlock(c) for _ in range(c.layers))
        self.norm = nn.RMSNorm(c.dim)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))
