import torch
from torch import nn
import torch.nn.functional as F


class MemoryKVAttention(nn.Module):
    def __init__(self, dim=32, heads=4, num_mem_kv=3):
        super().__init__()
        self.heads, self.num_mem = heads, num_mem_kv
        self.scale = (dim // heads) ** -0.5
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.mem_k = nn.Parameter(torch.randn(heads, num_mem_kv, dim // heads))
        self.mem_v = nn.Parameter(torch.randn(heads, num_mem_kv, dim // heads))
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        k = torch.cat([self.mem_k.expand(b, -1, -1, -1), k], dim=2)
        v = torch.cat([self.mem_v.expand(b, -1, -1, -1), v], dim=2)
        s = torch.matmul(q * self.scale, k.transpose(-1, -2))
        if mask is not None:                       # (b, n), True = keep; memories are always kept
            mask = F.pad(mask, (self.num_mem, 0), value=True)
            s = s.masked_fill(~mask[:, None, None, :], float('-inf'))
        return self.out(torch.matmul(s.softmax(-1), v).transpose(1, 2).reshape(b, n, d))
