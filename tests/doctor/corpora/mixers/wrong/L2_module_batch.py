import torch
from torch import nn

class RecurrentRetention(nn.Module):
    def __init__(self, dim, gamma=0.9):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.gamma = gamma
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        s = torch.zeros(x.shape[-1], x.shape[-1], dtype=x.dtype)
        rows = []
        for b in range(x.shape[0]):
            row = []
            for t in range(x.shape[1]):
                s = self.gamma * s + torch.outer(k[b, t], v[b, t])
                row.append(q[b, t] @ s)
            rows.append(torch.stack(row))
        return torch.stack(rows)
