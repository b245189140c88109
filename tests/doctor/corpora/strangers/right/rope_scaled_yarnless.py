import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledRotary(nn.Module):
    def __init__(self, dim, base=10000.0, factor=1.0, ntk_alpha=1.0):
        super().__init__()
        base = base * ntk_alpha ** (dim / (dim - 2))
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim), persistent=False)
        self.factor = factor                       # linear interpolation: positions are squeezed

    def forward(self, x, offset=0):
        n = x.shape[-2]
        t = torch.arange(offset, offset + n, device=x.device).float() / self.factor
        ang = torch.outer(t, self.inv_freq)
        cos, sin = torch.cat([ang.cos()] * 2, -1).to(x), torch.cat([ang.sin()] * 2, -1).to(x)
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-b, a], dim=-1) * sin


class LongContextAttention(nn.Module):
    def __init__(self, dim=32, heads=4, factor=4.0):
        super().__init__()
        self.heads = heads
        self.rotary = ScaledRotary(dim // heads, factor=factor)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, n, d))
