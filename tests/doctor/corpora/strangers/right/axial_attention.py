import torch
from torch import nn


class SelfAttn(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.e = heads, dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1))
        merge = lambda t_: t_.reshape(b, -1, self.h, self.e).transpose(1, 2).reshape(b * self.h, -1, self.e)
        q, k, v = map(merge, (q, k, v))
        dots = torch.einsum('bie,bje->bij', q, k) * (self.e ** -0.5)
        out = torch.einsum('bij,bje->bie', dots.softmax(dim=-1), v)
        out = out.reshape(b, self.h, -1, self.e).transpose(1, 2).reshape(b, -1, d)
        return self.to_out(out)


class AxialAttention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.row, self.col = SelfAttn(dim, heads), SelfAttn(dim, heads)

    def forward(self, x):                      # (b, c, H, W)
        b, c, H, W = x.shape
        r = x.permute(0, 2, 3, 1).reshape(b * H, W, c)
        r = self.row(r).reshape(b, H, W, c)
        k = x.permute(0, 3, 2, 1).reshape(b * W, H, c)
        k = self.col(k).reshape(b, W, H, c).transpose(1, 2)
        return (r + k).permute(0, 3, 1, 2)


print(AxialAttention()(torch.randn(2, 24, 5, 7)).shape)
