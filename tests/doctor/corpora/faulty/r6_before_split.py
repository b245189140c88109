import math

import torch
from torch import nn


class RotaryAttention(nn.Module):
    """Multi-head attention with rotary positions on queries and keys."""

    def __init__(self, embed_dim: int, num_heads: int, base: float = 10000.0):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.base = base
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def rotate(self, x):
        # x: (batch, seq, width), neighbouring channels form a pair
        n, d = x.size(-2), x.size(-1)
        inv_freq = self.base ** (-torch.arange(0, d, 2, device=x.device, dtype=x.dtype) / d)
        angles = torch.arange(n, device=x.device, dtype=x.dtype)[:, None] * inv_freq
        even, odd = x[..., 0::2], x[..., 1::2]
        rotated = torch.stack((even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()), -1)
        return rotated.flatten(-2)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x, mask=None):
        q = self.split(self.rotate(self.query(x)))
        k = self.split(self.rotate(self.key(x)))
        v = self.split(self.value(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        if mask is not None:  # (batch, 1, seq, seq), 0 = hide
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = scores.softmax(dim=-1) @ v
        return self.out(out.transpose(1, 2).reshape(x.size(0), x.size(1), self.embed_dim))


if __name__ == "__main__":
    print(RotaryAttention(48, 4)(torch.randn(2, 8, 48)).shape)
