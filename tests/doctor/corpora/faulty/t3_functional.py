import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.dropout = dropout
        self.linear_q = nn.Linear(d_model, d_model)
        self.linear_k = nn.Linear(d_model, d_model)
        self.linear_v = nn.Linear(d_model, d_model)
        self.linear_o = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        b, n, d = query.shape
        q = self.linear_q(query).view(b, -1, self.n_heads, self.d_k).transpose(1, 2)
        k = self.linear_k(key).view(b, -1, self.n_heads, self.d_k).transpose(1, 2)
        v = self.linear_v(value).view(b, -1, self.n_heads, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        attn = F.softmax(scores, dim=-1)
        attn = F.dropout(attn, p=self.dropout)
        out = torch.matmul(attn, v).transpose(1, 2).reshape(b, n, d)
        return self.linear_o(out)
