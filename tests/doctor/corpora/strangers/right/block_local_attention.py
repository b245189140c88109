import torch
import torch.nn.functional as F
from torch import nn


class LocalAttention(nn.Module):
    """each query sees keys of its own and the previous block, never the future"""

    def __init__(self, dim=32, heads=4, block=4):
        super().__init__()
        self.h, self.block = heads, block
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        w = self.block
        pad = (-n) % w
        q, k, v = self.qkv(F.pad(x, (0, 0, 0, pad))).view(b, n + pad, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        nb = (n + pad) // w
        q, k, v = (t.reshape(b, self.h, nb, w, -1) for t in (q, k, v))
        back = lambda t: torch.cat([F.pad(t, (0, 0, 0, 0, 1, 0))[:, :, :-1], t], dim=3)   # previous block in front
        k, v = back(k), back(v)
        qi = torch.arange(nb * w, device=x.device).view(nb, w, 1)
        kj = torch.cat([torch.arange(-w, (nb - 1) * w).view(nb, 1, w), torch.arange(nb * w).view(nb, 1, w)], -1)
        kj = kj.to(x.device)
        keep = (kj >= 0) & (kj <= qi) & (kj < n)
        s = torch.einsum('bhuid,bhujd->bhuij', q, k) * (d // self.h) ** -0.5
        s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
        o = torch.einsum('bhuij,bhujd->bhuid', s.softmax(-1), v)
        return self.out(o.reshape(b, self.h, nb * w, -1)[:, :, :n].transpose(1, 2).reshape(b, n, d))
