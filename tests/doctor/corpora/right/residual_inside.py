import torch
import torch.nn as nn


class SelfAttentionLayer(nn.Module):
    """Pre-norm + attention + dropout + residual, all in one module (tabular model)"""

    def __init__(self, dim, heads, dropout=0.2):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.merge = nn.Linear(dim, dim)
        self.attn_dropout = nn.Dropout(dropout)
        self.out_dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, d = x.shape
        y = self.norm(x)
        q, k, v = (
            f(y).view(b, n, self.heads, d // self.heads).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        w = torch.softmax(q @ k.transpose(2, 3) / (d // self.heads) ** 0.5, dim=-1)
        self.attn_weights = w  # for plotting
        y = (self.attn_dropout(w) @ v).transpose(1, 2).reshape(b, n, d)
        return x + self.out_dropout(self.merge(y))


class PostNormCross(nn.Module):
    def __init__(self, dim, num_heads, kv_dim):
        super().__init__()
        self.num_heads = num_heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(kv_dim, dim)
        self.v = nn.Linear(kv_dim, dim)
        self.o = nn.Linear(dim, dim)
        self.ln = nn.LayerNorm(dim)

    def forward(self, x, memory, memory_mask=None):
        """memory_mask (B, M): True = valid"""
        B, N, D = x.shape
        M = memory.size(1)
        q = self.q(x).view(B, N, self.num_heads, -1).transpose(1, 2)
        k = self.k(memory).view(B, M, self.num_heads, -1).transpose(1, 2)
        v = self.v(memory).view(B, M, self.num_heads, -1).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        if memory_mask is not None:
            s = s.masked_fill(~memory_mask[:, None, None].bool(), torch.finfo(s.dtype).min)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(B, N, D)
        return self.ln(x + self.o(y))
