import torch
from torch import nn


class Head(nn.Module):
    """One causal head; d_head is its width, not a number of heads."""

    def __init__(self, d_in=20, d_head=12):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, d_head, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        scores = torch.einsum("btd,bsd->bts", q, k) * q.size(-1) ** -0.5
        ahead = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        return torch.einsum("bts,bsd->btd", scores.masked_fill(ahead, float("-inf")).softmax(-1), v)
