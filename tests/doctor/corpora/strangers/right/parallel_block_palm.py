import torch
import torch.nn.functional as F
from torch import nn


class ParallelBlock(nn.Module):
    def __init__(self, dim=32, heads=4, dim_head=10, ff_mult=2):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.heads, self.dh = heads, dim_head
        self.ff_inner = dim * ff_mult
        self.fused_dims = (heads * dim_head, dim_head, dim_head, self.ff_inner * 2)
        self.fused = nn.Linear(dim, sum(self.fused_dims), bias=False)
        self.attn_out = nn.Linear(heads * dim_head, dim, bias=False)
        self.ff_out = nn.Linear(self.ff_inner, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v, ff = self.fused(self.norm(x)).split(self.fused_dims, dim=-1)
        q = q.view(b, n, self.heads, self.dh).transpose(1, 2) * self.dh ** -0.5
        sim = torch.einsum('bhid,bjd->bhij', q, k)              # one key head for all
        sim = sim.masked_fill(torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1), -torch.finfo(sim.dtype).max)
        out = torch.einsum('bhij,bjd->bhid', sim.softmax(-1), v).transpose(1, 2).reshape(b, n, -1)
        a, gate = ff.chunk(2, dim=-1)
        return x + self.attn_out(out) + self.ff_out(F.silu(gate) * a)
