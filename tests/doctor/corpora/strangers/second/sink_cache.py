import torch
from torch import nn
import torch.nn.functional as F


class SinkAttention(nn.Module):
    """Decoding with a cache of `sinks` first tokens and the `recent` last ones."""

    def __init__(self, dim=32, heads=4, sinks=2, recent=6):
        super().__init__()
        self.heads, self.sinks, self.recent = heads, sinks, recent
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def trim(self, t):
        """keep the first `sinks` and the last `recent` rows"""
        n = t.size(2)
        if n <= self.sinks + self.recent:
            return t
        return torch.cat([t[:, :, :self.sinks], t[:, :, n - self.recent + 1:]], dim=2)

    def forward(self, x, cache=None):
        """x: (B, 1, dim)"""
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        k, v = self.trim(k), self.trim(v)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.wo(y.transpose(1, 2).flatten(2)), (k, v)


if __name__ == "__main__":
    att, cache = SinkAttention().eval(), None
    for t in torch.randn(1, 15, 32).split(1, 1):
        y, cache = att(t, cache)
    print(y.shape, cache[0].shape)
