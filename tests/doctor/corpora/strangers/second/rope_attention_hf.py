import torch
from torch import nn
import torch.nn.functional as F


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryAttention(nn.Module):
    def __init__(self, dim=64, n_heads=4, max_len=128, base=10000.0):
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        inv_freq = 1.0 / base ** (torch.arange(0, self.hd, 2).float() / self.hd)
        angles = torch.outer(torch.arange(max_len).float(), inv_freq)
        angles = angles.repeat_interleave(2, dim=-1)       # (max_len, hd)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rope(self, x):
        n = x.size(-2)
        return x * self.cos[:n] + rotate_half(x) * self.sin[:n]

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (w(x).view(b, n, self.n_heads, self.hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    print(RotaryAttention()(torch.randn(2, 12, 64)).shape)
