import torch
from torch import nn


class SelfAttention(nn.Module):
    """Self attention over the time steps of a batch of series, input (batch, time, features)."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.size = features // heads
        self.q = nn.Linear(features, features)
        self.k = nn.Linear(features, features)
        self.v = nn.Linear(features, features)
        self.out = nn.Linear(features, features)

    def forward(self, x):
        t, b, f = x.shape
        q = self.q(x).view(t, b * self.heads, self.size).transpose(0, 1)
        k = self.k(x).view(t, b * self.heads, self.size).transpose(0, 1)
        v = self.v(x).view(t, b * self.heads, self.size).transpose(0, 1)
        w = torch.softmax(q @ k.transpose(1, 2) / self.size**0.5, dim=-1)
        o = (w @ v).transpose(0, 1).reshape(t, b, f)
        return self.out(o)


if __name__ == "__main__":
    series = torch.randn(16, 24, 12)  # 16 series of 24 hours
    print(SelfAttention(12, 3)(series).shape)
