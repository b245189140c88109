import torch
from torch import nn, einsum


class GQA(nn.Module):
    # h query heads, g key/value heads
    def __init__(self, dim: int, h: int = 6, g: int = 2):
        super().__init__()
        self.h, self.g, self.r, self.dh = h, g, h // g, dim // h
        self.wq = nn.Linear(dim, h * self.dh, bias=False)
        self.wkv = nn.Linear(dim, 2 * g * self.dh, bias=False)
        self.wo = nn.Linear(h * self.dh, dim, bias=False)

    def forward(self, x, mask=None):
        b, n, _ = x.shape
        q = self.wq(x).reshape(b, n, self.g, self.r, self.dh) * self.dh ** -0.5
        k, v = self.wkv(x).reshape(b, n, 2, self.g, self.dh).unbind(2)
        s = einsum('bigrd,bjgd->bgrij', q, k)
        if mask is not None:                     # bool, True = allowed, (b, n) or (n, n)
            if mask.shape == (b, n):
                mask = mask[:, None, None, None, :]
            s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
        p = s.softmax(-1)
        o = einsum('bgrij,bjgd->bigrd', p, v)
        return self.wo(o.reshape(b, n, -1))
