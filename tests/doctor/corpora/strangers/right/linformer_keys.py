import torch
from torch import nn


class LinformerAttention(nn.Module):
    def __init__(self, dim=32, seq_len=16, k=5, heads=4):
        super().__init__()
        self.heads, self.seq_len = heads, seq_len
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.proj_k = nn.Parameter(torch.randn(seq_len, k) * seq_len ** -0.5)
        self.proj_v = nn.Parameter(torch.randn(seq_len, k) * seq_len ** -0.5)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        assert n <= self.seq_len
        h, dh = self.heads, d // self.heads
        q = self.to_q(x).reshape(b, n, h, dh).transpose(1, 2)
        keys = torch.einsum('bnd,nk->bkd', self.to_k(x), self.proj_k[:n])
        values = torch.einsum('bnd,nk->bkd', self.to_v(x), self.proj_v[:n])
        keys, values = (t.reshape(b, -1, h, dh).transpose(1, 2) for t in (keys, values))
        dots = torch.einsum('bhnd,bhkd->bhnk', q, keys) * (dh ** -0.5)
        out = torch.einsum('bhnk,bhkd->bhnd', dots.softmax(dim=-1), values)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))
