import torch
from torch import nn

class Retention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.register_buffer("gamma", 1 - 2.0 ** (-2 - torch.arange(heads).double()))
    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1) for f in (self.q, self.k, self.v))
        s = x.new_zeros(b, self.heads, c // self.heads, c // self.heads)
        ys = []
        for t in range(n):
            s = (s + torch.einsum("bhd,bhe->bhde", k[:, t], v[:, t])) * self.gamma.view(1, -1, 1, 1)
            ys.append(torch.einsum("bhd,bhde->bhe", q[:, t], s))
        return self.o(torch.stack(ys, 1).reshape(b, n, c))
