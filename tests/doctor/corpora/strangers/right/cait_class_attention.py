import torch
from torch import nn


class ClassAttention(nn.Module):
    def __init__(self, dim, num_heads=4, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.q = nn.Linear(dim, dim, bias=qkv_bias)
        self.k = nn.Linear(dim, dim, bias=qkv_bias)
        self.v = nn.Linear(dim, dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q = self.q(x[:, 0]).unsqueeze(1).reshape(B, 1, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        k = self.k(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        v = self.v(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        attn = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1)
        x_cls = (attn @ v).transpose(1, 2).reshape(B, 1, C)
        return self.proj(x_cls)


class AttentionPool(nn.Module):
    """learned query pools a padded sequence into one vector"""

    def __init__(self, dim):
        super().__init__()
        self.query = nn.Parameter(torch.randn(dim) * 0.1)
        self.to_k, self.to_v = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, mask):                      # mask (B, N) True = token
        e = (self.to_k(x) @ self.query) / x.size(-1) ** 0.5
        w = e.masked_fill(~mask, float('-inf')).softmax(dim=1)
        return (w.unsqueeze(-1) * self.to_v(x)).sum(1)
