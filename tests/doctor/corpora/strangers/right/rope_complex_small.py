import torch
from torch import nn


def rope(x, base=10_000.0, start=0):
    # x: (batch, heads, seq, dim) -> same, rotated pairwise as complex numbers
    *_, n, d = x.shape
    theta = base ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = torch.arange(start, start + n, device=x.device).float()[:, None] * theta[None, :]
    z = torch.polar(torch.ones_like(ang), ang)
    xc = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(xc * z).flatten(-2).to(x.dtype)


class RotaryAttention(nn.Module):
    def __init__(self, width=40, heads=5):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
        return self.proj(y.transpose(1, 2).flatten(2))
