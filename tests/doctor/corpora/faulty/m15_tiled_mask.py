import math

import torch
from torch import nn


def fold_heads(X, num_heads):
    """(batch, n, hiddens) -> (batch * num_heads, n, hiddens / num_heads)"""
    return X.unflatten(-1, (num_heads, -1)).transpose(1, 2).flatten(0, 1)


def unfold_heads(X, num_heads):
    return X.unflatten(0, (-1, num_heads)).transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """mask: (batch, n queries, n keys), True = padding, never attended."""

    def __init__(self, num_hiddens, num_heads, dropout=0.0, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout)
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)

    def forward(self, queries, keys, values, mask=None):
        queries = fold_heads(self.W_q(queries), self.num_heads)
        keys = fold_heads(self.W_k(keys), self.num_heads)
        values = fold_heads(self.W_v(values), self.num_heads)

        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
        if mask is not None:
            mask = mask.repeat(self.num_heads, 1, 1)
            scores = scores.masked_fill(mask, -1e9)
        weights = torch.softmax(scores, dim=-1)
        output = torch.bmm(self.dropout(weights), values)
        return self.W_o(unfold_heads(output, self.num_heads))
