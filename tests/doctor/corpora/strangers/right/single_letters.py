import torch as t
from torch import nn


class A(nn.Module):
    def __init__(s, d, h):
        super().__init__()
        s.h = h
        s.Q, s.K, s.V, s.O = (nn.Parameter(t.randn(d, d) / d ** .5) for _ in range(4))

    def forward(s, x, m=None):
        b, n, d = x.shape
        f = lambda w: (x @ w).view(b, n, s.h, d // s.h).transpose(1, 2)
        q, k, v = f(s.Q), f(s.K), f(s.V)
        a = q @ k.mT / (d // s.h) ** .5
        if m is not None:
            a = a.masked_fill(m == 0, -t.inf)
        return (a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d) @ s.O
