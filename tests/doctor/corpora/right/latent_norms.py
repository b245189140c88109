import torch
from torch import nn


class LatentAttention(nn.Module):
    """Queries and keys go through narrow layers with norms of their own, as wide as the model or not."""

    def __init__(self, dim=32, n_heads=4, q_rank=24):
        super().__init__()
        self.h = n_heads
        self.q_down, self.q_norm = nn.Linear(dim, q_rank, bias=False), nn.LayerNorm(q_rank)
        self.q_up = nn.Linear(q_rank, dim, bias=False)
        self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x):
        b, n, c = x.shape
        q = self.q_up(self.q_norm(self.q_down(x)))
        q, k, v = (t.view(b, n, self.h, -1).transpose(1, 2) for t in (q, self.k(x), self.v(x)))
        a = (q @ k.transpose(-2, -1) * q.size(-1) ** -0.5).softmax(-1)
        return self.o((a @ v).transpose(1, 2).reshape(b, n, c))
