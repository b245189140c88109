import torch
from torch import nn


def build_rope_cache(seq_len, dim, base=10000):
    theta = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    idx = torch.outer(torch.arange(seq_len).float(), theta)   # (seq, dim/2)
    emb = torch.cat((idx, idx), dim=-1)                       # (seq, dim)
    return emb.cos(), emb.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    flipped = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + flipped * sin


class RoPESelfAttention(nn.Module):
    def __init__(self, dim=48, heads=4, max_len=256):
        super().__init__()
        self.heads = heads
        self.dh = dim // heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        cos, sin = build_rope_cache(max_len, self.dh)
        self.register_buffer('cos', cos, persistent=False)
        self.register_buffer('sin', sin, persistent=False)

    def forward(self, x, offset=0):
        B, N, C = x.shape
        q, k, v = self.to_qkv(x).view(B, N, 3, self.heads, self.dh).permute(2, 0, 3, 1, 4)
        cos, sin = self.cos[offset:offset + N], self.sin[offset:offset + N]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        scores = q @ k.transpose(-1, -2) / self.dh ** 0.5
        causal = torch.triu(torch.ones(N, N, device=x.device), 1).bool()
        scores = scores.masked_fill(causal, -torch.inf)
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))
