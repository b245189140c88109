import torch
from torch import nn


class ChunkedRetention(nn.Module):
    def __init__(self, dim, n_heads=4, chunk_size=16):
        super().__init__()
        self.n_heads, self.chunk_size = n_heads, chunk_size
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.register_buffer("gamma", 1 - 2.0 ** (-2 - torch.arange(n_heads, dtype=torch.float64)))

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = (t.view(B, N, self.n_heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        g = self.gamma.to(x)[:, None, None]
        S = x.new_zeros(B, self.n_heads, C // self.n_heads, C // self.n_heads)
        parts = []
        for qc, kc, vc in zip(*(t.split(self.chunk_size, 2) for t in (q, k, v))):
            c = qc.shape[2]
            i = torch.arange(c, dtype=x.dtype)[:, None]
            mask = torch.tril(g ** (i - i.T))
            parts.append((qc @ kc.mT * mask) @ vc + g**i * (qc @ S))
            S = g**c * S + (kc * g ** (c - 1 - i)).mT @ vc
        return self.out(torch.cat(parts, 2).transpose(1, 2).reshape(B, N, C))
