import math

import torch
from torch import nn

MAX_BATCH = 4
MAX_SEQ = 64


class StaticCacheAttention(nn.Module):
    """keys/values are written to a preallocated buffer at start_pos"""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head, self.hs = n_head, n_embd // n_head
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.register_buffer("k_cache", torch.zeros(MAX_BATCH, n_head, MAX_SEQ, self.hs), persistent=False)
        self.register_buffer("v_cache", torch.zeros(MAX_BATCH, n_head, MAX_SEQ, self.hs), persistent=False)
        self.register_buffer("causal", torch.tril(torch.ones(MAX_SEQ, MAX_SEQ, dtype=torch.bool)), persistent=False)

    def forward(self, x, start_pos=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = [t.view(B, T, self.n_head, self.hs).transpose(1, 2) for t in (q, k, v)]
        if start_pos is None:  # training
            keep = self.causal[:T, :T]
        else:
            end = start_pos + T
            with torch.no_grad():
                self.k_cache[:B, :, start_pos:end] = k
                self.v_cache[:B, :, start_pos:end] = v
            k = self.k_cache[:B, :, :end].clone()
            v = self.v_cache[:B, :, :end].clone()
            keep = self.causal[start_pos:end, :end]
        att = q @ k.transpose(-1, -2) / math.sqrt(self.hs)
        att = att.masked_fill(~keep, -float("inf")).softmax(-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y)
