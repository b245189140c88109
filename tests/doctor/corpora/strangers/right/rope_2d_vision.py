import torch
from torch import nn


def rope_1d(x, pos, base=100.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = pos.float()[:, None] * inv
    c, s = ang.cos(), ang.sin()
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return torch.stack([x1 * c - x2 * s, x1 * s + x2 * c], dim=-1).flatten(-2)


def rope_2d(x, h, w):
    """x (B, heads, h*w, d), d divisible by 4; row-major patches"""
    rows = torch.arange(h, device=x.device).repeat_interleave(w)
    cols = torch.arange(w, device=x.device).repeat(h)
    xr, xc = x.chunk(2, dim=-1)
    return torch.cat([rope_1d(xr, rows), rope_1d(xc, cols)], dim=-1)


class ViTRoPEAttention(nn.Module):
    def __init__(self, dim=48, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, hw):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rope_2d(q, *hw), rope_2d(k, *hw)
        a = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(B, N, C))
