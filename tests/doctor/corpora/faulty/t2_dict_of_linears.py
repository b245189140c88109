import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.proj = {name: nn.Linear(dim, dim) for name in ("q", "k", "v")}
        self.to_out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        """mask: (B, 1, n, m), True for the pairs that may attend"""
        b, n, _ = q.shape
        q = self.proj["q"](q).view(b, -1, self.heads, self.head_dim).transpose(1, 2)
        k = self.proj["k"](k).view(b, -1, self.heads, self.head_dim).transpose(1, 2)
        v = self.proj["v"](v).view(b, -1, self.heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) * self.head_dim**-0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        attn = self.dropout(F.softmax(scores, dim=-1))
        return self.to_out((attn @ v).transpose(1, 2).reshape(b, n, -1))
