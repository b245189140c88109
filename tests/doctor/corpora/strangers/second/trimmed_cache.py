import math
import torch
from torch import nn


class TrimmedCacheAttention(nn.Module):
    """Causal attention over the last `window` tokens, the current one included."""

    def __init__(self, dim=40, heads=4, window=6, max_len=64):
        super().__init__()
        self.heads, self.hd, self.window = heads, dim // heads, window
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.o = nn.Linear(dim, dim, bias=False)
        i = torch.arange(max_len)
        near = (i[:, None] >= i[None, :]) & (i[:, None] - i[None, :] < window)
        self.register_buffer("near", near, persistent=False)

    def heads_of(self, t):
        return t.view(t.size(0), t.size(1), self.heads, self.hd).transpose(1, 2)

    def forward(self, x):
        n = x.size(1)
        q, k, v = self.heads_of(self.q(x)), self.heads_of(self.k(x)), self.heads_of(self.v(x))
        s = (q @ k.transpose(-1, -2) / math.sqrt(self.hd)).masked_fill(~self.near[:n, :n], float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def decode(self, x, cache=None):
        """x: (B, 1, dim)"""
        q, k, v = self.heads_of(self.q(x)), self.heads_of(self.k(x)), self.heads_of(self.v(x))
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        k, v = k[:, :, -self.window + 1:], v[:, :, -self.window + 1:]
        w = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.hd), dim=-1)
        return self.o((w @ v).transpose(1, 2).flatten(2)), (k, v)


if __name__ == "__main__":
    att, cache = TrimmedCacheAttention().eval(), None
    for tok in torch.randn(2, 10, 40).split(1, dim=1):
        y, cache = att.decode(tok, cache)
    print(y.shape, cache[0].shape)
