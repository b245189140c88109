import math
import torch
import torch.nn as nn


class RelativeAttention(nn.Module):
    """Self-attention with a learned relative position bias per head (T5-like, no buckets)."""

    def __init__(self, dim=48, heads=4, max_len=32):
        super().__init__()
        self.heads, self.hd, self.max_len = heads, dim // heads, max_len
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.rel_bias = torch.randn(heads, 2 * max_len - 1, requires_grad=True)
        i = torch.arange(max_len)
        self.register_buffer("index", i[None, :] - i[:, None] + max_len - 1, persistent=False)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.hd)
        s = s + self.rel_bias[:, self.index[:n, :n]]
        return self.proj((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


if __name__ == "__main__":
    print(RelativeAttention()(torch.randn(2, 7, 48)).shape)
