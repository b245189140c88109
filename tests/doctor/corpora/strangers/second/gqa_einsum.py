import torch
import torch.nn as nn


class GQA(nn.Module):
    """Grouped-query attention. h query heads share g key/value heads."""

    def __init__(self, d: int, h: int, g: int):
        super().__init__()
        assert h % g == 0
        self.h, self.g, self.k = h, g, d // h
        self.Wq = nn.Linear(d, h * self.k, bias=False)
        self.Wk = nn.Linear(d, g * self.k, bias=False)
        self.Wv = nn.Linear(d, g * self.k, bias=False)
        self.Wo = nn.Linear(h * self.k, d, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        r = self.h // self.g
        # query head index = (group, member)
        q = self.Wq(x).view(b, n, r, self.g, self.k)
        k = self.Wk(x).view(b, n, self.g, self.k)
        v = self.Wv(x).view(b, n, self.g, self.k)
        s = torch.einsum("bnrgk,bmgk->brgnm", q, k) / self.k ** 0.5
        a = s.softmax(-1)
        o = torch.einsum("brgnm,bmgk->bnrgk", a, v)
        return self.Wo(o.reshape(b, n, -1))


if __name__ == "__main__":
    print(GQA(48, 6, 2)(torch.randn(2, 5, 48)).shape)
