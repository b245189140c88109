import torch
import torch.nn as nn


class WindowAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.reshape(b, self.num_heads, n, self.head_dim)
        k = k.reshape(b, self.num_heads, self.head_dim, n)
        v = v.reshape(b, self.num_heads, n, self.head_dim)
        attn = (q @ k * self.head_dim**-0.5).softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj(x)
