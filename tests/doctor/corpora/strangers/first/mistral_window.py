import torch
import torch.nn as nn


class SlidingWindowAttention(nn.Module):
    """Each token sees itself and the window - 1 tokens before it (window tokens in total)."""

    def __init__(self, dim=32, n_heads=4, window=3):
        super().__init__()
        self.n_heads, self.window = n_heads, window
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def mask(self, n, device):
        full = torch.ones(n, n, dtype=torch.bool, device=device)
        return torch.tril(full) & torch.triu(full, diagonal=-self.window)

    def forward(self, x):
        b, n, d = x.shape
        q = self.wq(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        s = q @ k.transpose(-1, -2) * self.head_dim ** -0.5
        s = s.masked_fill(~self.mask(n, x.device), float("-inf"))
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    print(SlidingWindowAttention()(torch.randn(2, 8, 32)).shape)
