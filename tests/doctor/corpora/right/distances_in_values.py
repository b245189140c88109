"""Distances go into keys and values, so shuffled tokens don't give shuffled outputs; a memory before the text."""

import torch
from torch import nn


class DistanceAttention(nn.Module):
    def __init__(self, d_model, n_heads, reach=3):
        super().__init__()
        self.h, self.d, self.reach = n_heads, d_model // n_heads, reach
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.of_keys = nn.Embedding(2 * reach + 1, self.d)
        self.of_values = nn.Embedding(2 * reach + 1, self.d)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (w(x).view(b, n, self.h, self.d).transpose(1, 2) for w in (self.q, self.k, self.v))
        at = torch.arange(n)
        far = (at[None] - at[:, None]).clamp(-self.reach, self.reach) + self.reach
        scores = q @ k.transpose(-1, -2) + torch.einsum("bhid,ijd->bhij", q, self.of_keys(far))
        a = (scores / self.d**0.5).softmax(-1)
        z = a @ v + torch.einsum("bhij,ijd->bhid", a, self.of_values(far))
        return self.o(z.transpose(1, 2).reshape(b, n, c))


class Recurrent(nn.Module):
    """Looks at its own text up to here and at everything of the text before (mems)."""

    def __init__(self, d_model=32, n_head=4):
        super().__init__()
        self.h, self.d = n_head, d_model // n_head
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.kv = nn.Linear(d_model, 2 * d_model, bias=False)
        self.o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mems=None):
        both = x if mems is None else torch.cat([mems, x], 1)
        (b, n, c), m = x.shape, both.size(1)
        q = self.q(x).view(b, n, self.h, self.d)
        k, v = self.kv(both).view(b, m, 2, self.h, self.d).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * self.d**-0.5
        ahead = torch.ones(n, m, dtype=torch.bool).triu(1 + m - n)
        weights = scores.masked_fill(ahead, float("-inf")).softmax(-1)
        return self.o(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(b, n, c))
