import torch
import torch.nn as nn
import torch.nn.functional as F


class Retention(nn.Module):
    """With group norm and a gate, as the paper has it."""

    def __init__(self, dim, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.g, self.o = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.norm = nn.GroupNorm(n_heads, dim)
        gamma = 1 - torch.exp2(-5 - torch.arange(n_heads, dtype=torch.float32))
        self.register_buffer("log_gamma", gamma.log())

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = (f(x).view(B, N, self.n_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        pos = torch.arange(N)
        rel = (pos[:, None] - pos[None]).to(x)
        D = torch.exp(rel.clamp(min=0) * self.log_gamma[:, None, None].to(x)).tril()
        y = (q @ k.transpose(2, 3) * D * (C // self.n_heads) ** -0.5) @ v
        y = self.norm(y.transpose(1, 2).reshape(B * N, C)).view(B, N, C)
        return self.o(F.silu(self.g(x)) * y)
