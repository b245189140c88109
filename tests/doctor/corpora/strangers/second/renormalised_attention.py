import torch
from torch import nn


class PooledAttention(nn.Module):
    """Self attention; weights below a tiny threshold are removed and rows renormalised."""

    def __init__(self, dim, heads, eps=1e-6):
        super().__init__()
        self.heads, self.eps = heads, eps
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5, dim=-1)
        a[a < self.eps] = 0
        a /= a.sum(dim=-1, keepdim=True)
        return self.proj((a @ v).transpose(1, 2).reshape(b, n, c))


if __name__ == "__main__":
    with torch.no_grad():
        print(PooledAttention(32, 4)(torch.randn(2, 6, 32)).shape)
