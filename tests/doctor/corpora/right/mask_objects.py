"""A mask that is an object with the tensor in it, for attention over (B, L, H, E); a layer that must be told what is hidden."""

import math

import torch
from torch import nn


class Triangle:
    def __init__(self, batch, length):
        self.hidden = torch.triu(torch.ones(batch, 1, length, length, dtype=torch.bool), 1)


class PlainAttention(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, attn_mask=None):
        b, n, h, e = queries.shape
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        attn_mask = Triangle(b, n) if attn_mask is None else attn_mask
        scores = scores.masked_fill(attn_mask.hidden, -torch.inf) / math.sqrt(e)
        return torch.einsum("bhls,bshd->blhd", self.dropout(scores.softmax(-1)), values)


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(hidden)
        self.attn = nn.MultiheadAttention(hidden, heads, batch_first=True)

    def forward(self, x, blocked):
        """blocked (B, T, T), True = hidden"""
        h = self.norm(x)
        each = blocked.repeat_interleave(self.heads, dim=0)
        return x + self.attn(h, h, h, attn_mask=each, need_weights=False)[0]
