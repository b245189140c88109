import torch
from torch import nn, einsum


def exists(v):
    return v is not None


class Attention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=None, context_dim=None):
        super().__init__()
        dim_head = dim_head or dim // heads
        inner = heads * dim_head
        context_dim = context_dim or dim
        self.heads, self.scale = heads, dim_head ** -0.5
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * inner, bias=False)

    def forward(self, x, context=None, mask=None):
        b, n, h = x.shape[0], x.shape[1], self.heads
        src = context if exists(context) else x
        q = self.to_q(x)
        k, v = self.to_kv(src).chunk(2, dim=-1)
        q, k, v = (t.reshape(b, t.shape[1], h, -1).transpose(1, 2) for t in (q, k, v))
        dots = einsum("bhid,bhjd->bhij", q, k) * self.scale
        if exists(mask):                                  # (b, j), True = attend
            dots = dots.masked_fill(~mask[:, None, None, :], -torch.finfo(dots.dtype).max)
        attn = dots.softmax(dim=-1)
        out = einsum("bhij,bhjd->bhid", attn, v)
        return out.transpose(1, 2).reshape(b, n, -1)


if __name__ == "__main__":
    print(Attention(64)(torch.randn(2, 6, 64), torch.randn(2, 9, 64)).shape)
