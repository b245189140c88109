"""Attention used while verifying draft tokens (several new tokens per call)."""
import math
import torch
import torch.nn as nn


class KVCache:
    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]

    def update(self, k, v):
        self.k = k if self.k is None else torch.cat((self.k, k), 2)
        self.v = v if self.v is None else torch.cat((self.v, v), 2)
        return self.k, self.v


class DraftAttention(nn.Module):
    def __init__(self, hidden=48, heads=6, max_len=128):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.q_proj, self.k_proj = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.v_proj, self.o_proj = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.register_buffer("causal", torch.full((max_len, max_len), float("-inf")).triu(1), persistent=False)

    def forward(self, hidden, cache=None):
        b, n, _ = hidden.shape
        past = len(cache) if cache is not None else 0
        q, k, v = (p(hidden).view(b, n, self.heads, self.size).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        if cache is not None:
            k, v = cache.update(k, v)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.size)
        if past == 0:
            scores = scores + self.causal[:n, :n]
        w = torch.softmax(scores, dim=-1)
        return self.o_proj((w @ v).transpose(1, 2).reshape(b, n, -1))


if __name__ == "__main__":
    m, c = DraftAttention().eval(), KVCache()
    m(torch.randn(1, 6, 48), c)
    print(m(torch.randn(1, 3, 48), c).shape, len(c))
