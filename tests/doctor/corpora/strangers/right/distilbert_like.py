import math
import torch
from torch import nn


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, dim=36, n_heads=6, dropout=0.1):
        super().__init__()
        self.n_heads, self.dim = n_heads, dim
        self.dropout = nn.Dropout(p=dropout)
        assert self.dim % self.n_heads == 0
        self.q_lin = nn.Linear(dim, dim)
        self.k_lin = nn.Linear(dim, dim)
        self.v_lin = nn.Linear(dim, dim)
        self.out_lin = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask, output_attentions=False):
        bs, q_length, dim = query.size()
        k_length = key.size(1)
        dim_per_head = self.dim // self.n_heads
        mask_reshp = (bs, 1, 1, k_length)

        def shape(x):
            """separate heads"""
            return x.view(bs, -1, self.n_heads, dim_per_head).transpose(1, 2)

        def unshape(x):
            """group heads"""
            return x.transpose(1, 2).contiguous().view(bs, -1, self.n_heads * dim_per_head)

        q, k, v = shape(self.q_lin(query)), shape(self.k_lin(key)), shape(self.v_lin(value))
        q = q / math.sqrt(dim_per_head)
        scores = torch.matmul(q, k.transpose(2, 3))
        mask = (mask == 0).view(mask_reshp).expand_as(scores)
        scores = scores.masked_fill(mask, torch.tensor(torch.finfo(scores.dtype).min))
        weights = self.dropout(nn.functional.softmax(scores, dim=-1))
        context = self.out_lin(unshape(torch.matmul(weights, v)))
        return (context, weights) if output_attentions else (context,)


class TransformerBlock(nn.Module):
    def __init__(self, dim=36, n_heads=6):
        super().__init__()
        self.attention = MultiHeadSelfAttention(dim, n_heads)
        self.sa_layer_norm = nn.LayerNorm(dim, eps=1e-12)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.output_layer_norm = nn.LayerNorm(dim, eps=1e-12)

    def forward(self, x, attn_mask):
        sa = self.attention(x, x, x, attn_mask)[0]
        sa = self.sa_layer_norm(sa + x)
        return self.output_layer_norm(self.ffn(sa) + sa)
