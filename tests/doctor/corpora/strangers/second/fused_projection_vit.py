import torch
from torch import nn


class FusedAttention(nn.Module):
    """All three projections in one matmul."""

    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, 3, n, self.heads, self.hd)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(dim=1))  # each (b, heads, n, hd)
        w = (q * self.hd ** -0.5) @ k.transpose(-1, -2)
        w = w.softmax(-1)
        return self.proj((w @ v).transpose(1, 2).reshape(b, n, c))


if __name__ == "__main__":
    print(FusedAttention()(torch.randn(2, 17, 64)).shape)
