import torch
from torch import nn
import torch.nn.functional as F


class Rope(nn.Module):
    def __init__(self, dim, max_len=256, theta=10000.0):
        super().__init__()
        f = theta ** (-torch.arange(0, dim, 2).float() / dim)
        a = torch.arange(max_len).float()[:, None] * f[None]
        self.register_buffer("c", a.cos(), persistent=False)
        self.register_buffer("s", a.sin(), persistent=False)

    def forward(self, x):
        n = x.shape[-2]
        e, o = x[..., 0::2], x[..., 1::2]
        c, s = self.c[:n], self.s[:n]
        return torch.stack([e * c - o * s, e * s + o * c], dim=-1).flatten(-2)


class RopeAttention(nn.Module):
    def __init__(self, d_model=64, heads=4):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.rope = Rope(d_model)

    def split(self, t):
        b, n, d = t.shape
        return t.view(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x):
        q = self.split(self.rope(self.wq(x)))
        k = self.split(self.rope(self.wk(x)))
        v = self.split(self.wv(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))


if __name__ == "__main__":
    print(RopeAttention()(torch.randn(2, 9, 64)).shape)
