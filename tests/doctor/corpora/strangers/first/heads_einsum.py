import torch
import torch.nn as nn


class Head(nn.Module):
    """one causal head; x is (B, T, C)"""

    def __init__(self, C, hs, T_max=128):
        super().__init__()
        self.Wq = nn.Parameter(torch.randn(C, hs) * C ** -0.5)
        self.Wk = nn.Parameter(torch.randn(C, hs) * C ** -0.5)
        self.Wv = nn.Parameter(torch.randn(C, hs) * C ** -0.5)
        self.register_buffer("lower", torch.ones(T_max, T_max).tril(), persistent=False)

    def forward(self, x):
        T = x.shape[1]
        q, k, v = x @ self.Wq, x @ self.Wk, x @ self.Wv
        s = torch.einsum("bqd,bkd->bqk", q, k) * q.shape[-1] ** -0.5
        s = s * self.lower[:T, :T]
        return s.softmax(-1) @ v


class MultiHead(nn.Module):
    def __init__(self, C=32, n=4):
        super().__init__()
        self.heads = nn.ModuleList(Head(C, C // n) for _ in range(n))
        self.mix = nn.Linear(C, C)

    def forward(self, x):
        return self.mix(torch.cat([h(x) for h in self.heads], -1))


if __name__ == "__main__":
    print(MultiHead()(torch.randn(3, 10, 32)).shape)
