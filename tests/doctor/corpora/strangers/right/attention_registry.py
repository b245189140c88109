from abc import ABC, abstractmethod

import torch
from torch import nn

REGISTRY = {}


def register(name):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls
    return wrap


class BaseAttention(nn.Module, ABC):
    @abstractmethod
    def score(self, q, k):
        """(B, N, D), (B, M, D) -> (B, N, M)"""

    def forward(self, q, k, v, block=None):
        s = self.score(q, k)
        if block is not None:                          # True = not allowed, broadcastable to (B, N, M)
            s = s.masked_fill(block, float("-inf"))
        return torch.einsum("bnm,bmd->bnd", s.softmax(-1), v)


@register("dot")
class DotProduct(BaseAttention):
    def score(self, q, k):
        return torch.einsum("bnd,bmd->bnm", q, k) * q.shape[-1] ** -0.5


@register("additive")
class Additive(BaseAttention):
    def __init__(self, dim=8, hidden=16):
        super().__init__()
        self.wq, self.wk = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def score(self, q, k):
        return self.v(torch.tanh(self.wq(q)[:, :, None] + self.wk(k)[:, None])).squeeze(-1)


def build_attention(name, **kw):
    return REGISTRY[name](**kw)


if __name__ == "__main__":
    q, k = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    for name in REGISTRY:
        print(name, build_attention(name)(q, k, k).shape)
