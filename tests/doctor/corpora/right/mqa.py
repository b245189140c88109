# Multi-Query Attention: "Fast Transformer Decoding: One Write-Head is All You Need"
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.Wqkv = nn.Linear(d_model, d_model + 2 * self.d_k, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        self.p = dropout

    def forward(self, x, mask=None):
        b, s, d = x.shape
        query, key, value = self.Wqkv(x).split([d, self.d_k, self.d_k], dim=2)
        query = query.view(b, s, self.n_heads, self.d_k).transpose(1, 2)
        key = key.unsqueeze(1)  # (b, 1, s, d_k): the one head for all
        value = value.unsqueeze(1)

        attn_weight = query @ key.transpose(-1, -2) * self.d_k**-0.5
        if mask is not None:
            attn_weight = attn_weight.masked_fill(~mask.bool(), float("-inf"))
        attn_weight = attn_weight.softmax(dim=-1)
        attn_weight = F.dropout(attn_weight, self.p, training=self.training)
        context = attn_weight @ value
        context = context.transpose(1, 2).contiguous().view(b, s, d)
        return self.out_proj(context)
