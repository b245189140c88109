import torch
from torch import nn, einsum


class Attention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64, causal=False):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads = heads
        self.causal = causal
        self.scale = dim_head**-0.5
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = nn.Linear(inner_dim, dim)

    def forward(self, x, mask=None):
        b, n, _ = x.shape
        h = self.heads
        q, k, v = map(lambda t: t.reshape(b, n, h, -1).transpose(1, 2), self.to_qkv(x).chunk(3, dim=-1))
        dots = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        mask_value = -torch.finfo(dots.dtype).eps

        if mask is not None:  # (b, n), True = token
            dots = dots.masked_fill(~mask[:, None, None, :], mask_value)
        if self.causal:
            future = torch.ones(n, n, device=x.device, dtype=torch.bool).triu(1)
            dots = dots.masked_fill(future, mask_value)

        attn = dots.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))
