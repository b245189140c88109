import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        assert d_model % num_heads == 0
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        B, T_q, _ = q.shape
        T_k = k.shape[1]

        q = self.q_proj(q).view(B, T_q, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(k).view(B, T_k, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(v).view(B, T_k, self.num_heads, self.head_dim).transpose(1, 2)

        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        attn = self.dropout(F.softmax(scores, dim=-1))

        out = (attn @ v).contiguous().view(B, T_q, self.d_model)
        return self.out_proj(out)
