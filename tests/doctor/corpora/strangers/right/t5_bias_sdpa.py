import torch
import torch.nn as nn
import torch.nn.functional as F


class SimplifiedRelBias(nn.Module):
    def __init__(self, heads, max_dist):
        super().__init__()
        self.max_dist = max_dist
        self.table = nn.Parameter(torch.randn(heads, 2 * max_dist + 1) * 0.5)

    def forward(self, n):
        i = torch.arange(n, device=self.table.device)
        d = (i[None] - i[:, None]).clamp(-self.max_dist, self.max_dist) + self.max_dist
        return self.table[:, d]            # (heads, n, n)


class RelBiasAttention(nn.Module):
    def __init__(self, dim=36, heads=3, max_dist=8, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.bias = SimplifiedRelBias(heads, max_dist)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, pad=None):
        """pad (B, N) True at padding"""
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        m = self.bias(N)[None]
        if self.causal:
            m = m.masked_fill(torch.ones(N, N, dtype=torch.bool, device=x.device).triu(1), float('-inf'))
        if pad is not None:
            m = m.masked_fill(pad[:, None, None, :], float('-inf'))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=m)   # float mask is added to the scores
        return self.proj(y.transpose(1, 2).flatten(2))
