import torch
import torch.nn as nn
import torch.nn.functional as F


class KVCache:
    def __init__(self):
        self.k = None
        self.v = None

    @property
    def length(self):
        return 0 if self.k is None else self.k.shape[-2]

    def update(self, k, v):
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat((self.k, k), dim=-2)
            self.v = torch.cat((self.v, v), dim=-2)
        return self.k, self.v


class Attention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads=None, rope_base=10000.0):
        super().__init__()
        self.h = n_heads
        self.kv = n_kv_heads or n_heads
        self.d = dim // n_heads
        self.wq = nn.Linear(dim, self.h * self.d, bias=False)
        self.wk = nn.Linear(dim, self.kv * self.d, bias=False)
        self.wv = nn.Linear(dim, self.kv * self.d, bias=False)
        self.wo = nn.Linear(self.h * self.d, dim, bias=False)
        self.rope_base = rope_base

    def rotate(self, x, start):
        n, d = x.shape[-2], x.shape[-1]
        f = self.rope_base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / d)
        pos = torch.arange(start, start + n, device=x.device, dtype=torch.float64)
        ang = pos[:, None] * f[None]
        c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
        x1, x2 = x[..., : d // 2], x[..., d // 2 :]
        return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1)

    def forward(self, x, cache=None):
        b, n, _ = x.shape
        q = self.wq(x).view(b, n, self.h, self.d).transpose(1, 2)
        k = self.wk(x).view(b, n, self.kv, self.d).transpose(1, 2)
        v = self.wv(x).view(b, n, self.kv, self.d).transpose(1, 2)
        start = cache.length if cache is not None else 0
        q, k = self.rotate(q, start), self.rotate(k, start)
        if cache is not None:
            k, v = cache.update(k, v)
        m = k.shape[-2]
        # lower right corner alignment
        allowed = torch.ones(n, m, dtype=torch.bool, device=x.device).tril(diagonal=m - n)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, enable_gqa=self.kv != self.h)
        return self.wo(y.transpose(1, 2).reshape(b, n, -1))
