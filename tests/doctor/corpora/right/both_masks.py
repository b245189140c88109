import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoderSelfAttention(nn.Module):
    """attn_mask (n, n) and key_padding_mask (B, n), both boolean, both True = ignore (as nn.MultiheadAttention)"""

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.dropout = dropout
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, query, key, value, attn_mask=None, key_padding_mask=None):
        E, H = self.embed_dim, self.num_heads
        w, b = self.in_proj_weight, self.in_proj_bias
        q = F.linear(query, w[:E], b[:E])
        k = F.linear(key, w[E : 2 * E], b[E : 2 * E])
        v = F.linear(value, w[2 * E :], b[2 * E :])
        q, k, v = (t.unflatten(-1, (H, E // H)).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) * (E // H) ** -0.5
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, float("-inf"))
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
        p = F.dropout(scores.softmax(dim=-1), self.dropout, self.training)
        return self.out_proj((p @ v).transpose(1, 2).flatten(-2))
