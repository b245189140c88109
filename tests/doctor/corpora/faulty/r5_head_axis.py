import torch
import torch.nn as nn
import torch.nn.functional as F


def rotary(x, base=10000.0):
    """x: (batch, seq, heads, dim)"""
    n, d = x.shape[-2], x.shape[-1]
    freq = base ** (-torch.arange(0, d, 2, device=x.device) / d)
    angle = torch.arange(n, device=x.device)[:, None] * freq
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class RotarySelfAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q = rotary(self.wq(x).view(B, T, self.n_heads, self.head_dim))
        k = rotary(self.wk(x).view(B, T, self.n_heads, self.head_dim))
        v = self.wv(x).view(B, T, self.n_heads, self.head_dim)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


if __name__ == "__main__":
    print(RotarySelfAttention(64, 4)(torch.randn(2, 10, 64)).shape)
