from math import sqrt

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.dim_head = dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def _split(self, t):
        return t.unflatten(-1, (self.heads, self.dim_head)).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self._split(self.wq(query)), self._split(self.wk(key)), self._split(self.wv(value))
        similarity = q @ k.transpose(-1, -2)
        if mask is not None:
            # mask: (batch, 1, query_len, key_len), False = do not look
            similarity = similarity.masked_fill(mask == False, float("-inf"))  # noqa: E712
        attention = F.softmax(similarity, dim=-1) / sqrt(self.dim_head)
        out = (attention @ v).transpose(1, 2).flatten(2)
        return self.wo(out)
