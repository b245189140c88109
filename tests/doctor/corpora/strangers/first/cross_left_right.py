import torch
from torch import nn, einsum


class CrossAttention(nn.Module):
    """Every token of `left` gathers information from `right` (stereo matching)."""

    def __init__(self, dim, heads=4, dim_head=16):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.dim_head = heads, dim_head
        self.scale = dim_head ** -0.5
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def split(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.heads, self.dim_head).permute(0, 2, 1, 3)

    def forward(self, left, right):
        q = self.split(self.to_q(left))
        k, v = map(self.split, self.to_kv(right).chunk(2, dim=-1))
        sim = einsum('b h i d, b h j d -> b h i j', q, k) * self.scale
        attn = sim.softmax(dim=-2)
        out = einsum('b h i j, b h j d -> b h i d', attn, v)
        out = out.permute(0, 2, 1, 3).flatten(2)
        return self.to_out(out)


if __name__ == '__main__':
    net = CrossAttention(32)
    print(net(torch.randn(2, 10, 32), torch.randn(2, 12, 32)).shape)
