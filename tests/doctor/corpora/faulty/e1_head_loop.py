import torch
import torch.nn as nn


class MultiHeadSelfAttention(nn.Module):
    """Each head has its own small projections, one after another."""

    def __init__(self, d, n_heads=2):
        super().__init__()
        self.d = d
        self.n_heads = n_heads
        d_head = d // n_heads
        self.to_q = nn.ModuleList([nn.Linear(d, d_head) for _ in range(n_heads)])
        self.to_k = nn.ModuleList([nn.Linear(d, d_head) for _ in range(n_heads)])
        self.to_v = nn.ModuleList([nn.Linear(d, d_head) for _ in range(n_heads)])
        self.out = nn.Linear(d, d)
        self.d_head = d_head

    def forward(self, x):
        result = []
        for head in range(self.n_heads):
            q = self.to_q[head](x)
            k = self.to_k[head](x)
            v = self.to_v[head](x)
            attention = torch.softmax(q @ k.transpose(-2, -1) / (self.d_head**0.5), dim=-1)
            result.append(attention @ v)
        return self.out(torch.cat(result, dim=-1))
