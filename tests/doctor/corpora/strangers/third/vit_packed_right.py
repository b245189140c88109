import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        packed = self.to_qkv(x).view(b, n, self.heads, c // self.heads, 3)
        q, k, v = packed.permute(4, 0, 2, 1, 3)
        weights = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) * self.scale, dim=-1)
        out = torch.einsum("bhij,bhjd->bihd", weights, v)
        return self.to_out(out.flatten(2))


class Block(nn.Module):
    def __init__(self, dim, heads, ratio=4):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * ratio), nn.GELU(), nn.Linear(dim * ratio, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))
