import math

import torch
from torch import nn


class MultiHeadedAttention(nn.Module):
    """Multi-head attention.

    Args:
        hidden: model width
        heads: number of heads

    forward(query, key, value, mask):
        query, key, value: (batch, length, hidden)
        mask: (batch, 1, query length or 1, key length); 1 for real tokens, 0 for padding
    """

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.dim = hidden // heads
        self.q_linear = nn.Linear(hidden, hidden)
        self.k_linear = nn.Linear(hidden, hidden)
        self.v_linear = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, query, key, value, mask=None):
        bs = query.size(0)
        q = self.q_linear(query).view(bs, -1, self.heads, self.dim).transpose(1, 2)
        k = self.k_linear(key).view(bs, -1, self.heads, self.dim).transpose(1, 2)
        v = self.v_linear(value).view(bs, -1, self.heads, self.dim).transpose(1, 2)

        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.dim)
        if mask is not None:
            scores = scores.masked_fill(mask == 1, -1e9)
        scores = torch.softmax(scores, dim=-1)
        concat = torch.matmul(scores, v).transpose(1, 2).contiguous().view(bs, -1, self.heads * self.dim)
        return self.out(concat)
