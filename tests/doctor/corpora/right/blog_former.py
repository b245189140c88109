import torch
import torch.nn.functional as F
from torch import nn


def hide_future_(logits):
    """writes -inf above the diagonal, in place"""
    n, m = logits.shape[-2:]
    i, j = torch.triu_indices(n, m, offset=1)
    logits[..., i, j] = float("-inf")


class SelfAttention(nn.Module):
    """heads share the width. q and k are each divided by the fourth root of the head's size: less to keep in memory"""

    def __init__(self, emb, heads=8, mask=False):
        super().__init__()
        assert emb % heads == 0
        self.heads, self.mask = heads, mask
        self.head_size = self.size_of_a_head(emb)
        inner = heads * self.head_size
        self.tokeys = nn.Linear(emb, inner, bias=False)
        self.toqueries = nn.Linear(emb, inner, bias=False)
        self.tovalues = nn.Linear(emb, inner, bias=False)
        self.unifyheads = nn.Linear(inner, emb)

    def size_of_a_head(self, emb):
        return emb // self.heads

    def fold(self, t):
        b, n, _ = t.size()
        t = t.view(b, n, self.heads, self.head_size).transpose(1, 2)
        return t.reshape(b * self.heads, n, self.head_size)

    def forward(self, x):
        b, n, _ = x.size()
        root = self.head_size ** (1 / 4)
        q, k = self.fold(self.toqueries(x)) / root, self.fold(self.tokeys(x)) / root
        logits = torch.bmm(q, k.transpose(1, 2))
        if self.mask:
            hide_future_(logits)
        out = torch.bmm(F.softmax(logits, dim=2), self.fold(self.tovalues(x)))
        return self.unifyheads(out.view(b, self.heads, n, -1).transpose(1, 2).reshape(b, n, -1))


class SelfAttentionWide(SelfAttention):
    """each head as wide as the model"""

    def size_of_a_head(self, emb):
        return emb


class TransformerBlock(nn.Module):
    def __init__(self, emb, heads, mask, seq_length, ff_hidden_mult=4, dropout=0.0, wide=True):
        super().__init__()
        kind = SelfAttentionWide if wide else SelfAttention
        self.attention = kind(emb, heads=heads, mask=mask)
        self.ff = nn.Sequential(nn.Linear(emb, ff_hidden_mult * emb), nn.ReLU(), nn.Linear(ff_hidden_mult * emb, emb))
        self.norm1, self.norm2, self.do = nn.LayerNorm(emb), nn.LayerNorm(emb), nn.Dropout(dropout)

    def forward(self, x):
        x = self.do(self.norm1(self.attention(x) + x))
        return self.do(self.norm2(self.ff(x) + x))
