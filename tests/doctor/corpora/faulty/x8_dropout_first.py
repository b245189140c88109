import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        B, n, D = q.shape
        q = self.q_proj(q).view(B, -1, self.n_heads, self.d_head).transpose(1, 2)
        k = self.k_proj(k).view(B, -1, self.n_heads, self.d_head).transpose(1, 2)
        v = self.v_proj(v).view(B, -1, self.n_heads, self.d_head).transpose(1, 2)

        scores = q @ k.transpose(-1, -2) / self.d_head**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        scores = self.dropout(scores)
        attn = F.softmax(scores, dim=-1)

        return self.out_proj((attn @ v).transpose(1, 2).reshape(B, n, D))
