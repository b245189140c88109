import torch
from torch import nn, einsum


class EinsumAttention(nn.Module):
    """Self attention with explicit head axes in the weights."""

    def __init__(self, dim: int, heads: int = 4):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.scale = self.dh ** -0.5
        self.wq = nn.Parameter(torch.randn(dim, heads, self.dh) * dim ** -0.5)
        self.wk = nn.Parameter(torch.randn(dim, heads, self.dh) * dim ** -0.5)
        self.wv = nn.Parameter(torch.randn(dim, heads, self.dh) * dim ** -0.5)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, _ = x.shape
        q = einsum("b n c, c h d -> b h n d", x, self.wq) * self.scale
        k = einsum("b n c, c h d -> b h n d", x, self.wk)
        v = einsum("b n c, c h d -> b h n d", x, self.wv)
        sim = einsum("b h i d, b h j d -> b h i j", q, k)
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.reshape(b, n, -1))


if __name__ == "__main__":
    layer = EinsumAttention(32)
    print(layer(torch.randn(3, 9, 32)).shape)
