import math
import torch
from torch import nn


class RollingKVCache:
    """keeps the last `window` keys/values; slot = position % window"""

    def __init__(self, window):
        self.window, self.seen = window, 0
        self.k = self.v = None

    def add(self, k, v):                       # (b, h, 1, d)
        if self.k is None:
            b, h, _, d = k.shape
            self.k = k.new_zeros(b, h, self.window, d)
            self.v = v.new_zeros(b, h, self.window, d)
        slot = self.seen % self.window
        self.k[:, :, slot:slot + 1] = k
        self.v[:, :, slot:slot + 1] = v
        self.seen += 1
        filled = min(self.seen, self.window)
        return self.k[:, :, :filled], self.v[:, :, :filled]


def rope_at(x, pos):
    d = x.shape[-1]
    f = 10000.0 ** (-torch.arange(0, d // 2, dtype=torch.float32) / (d // 2))
    a = pos * f
    x1, x2 = x.chunk(2, -1)
    return torch.cat([x1 * a.cos() - x2 * a.sin(), x2 * a.cos() + x1 * a.sin()], -1)


class WindowedDecoder(nn.Module):
    def __init__(self, dim=32, heads=4, window=4):
        super().__init__()
        self.h, self.window = heads, window
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    @torch.no_grad()
    def step(self, x, cache):                  # x (b, 1, dim)
        b, _, c = x.shape
        q, k, v = (t.view(b, 1, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        pos = cache.seen
        q, k = rope_at(q, pos), rope_at(k, pos)
        K, V = cache.add(k, v)
        p = (q @ K.transpose(-1, -2) / math.sqrt(q.size(-1))).softmax(-1)
        return self.o((p @ V).transpose(1, 2).reshape(b, 1, c))


dec, cache = WindowedDecoder(), RollingKVCache(4)
for t in range(6):
    y = dec.step(torch.randn(1, 1, 32), cache)
print(y.shape, cache.seen)
