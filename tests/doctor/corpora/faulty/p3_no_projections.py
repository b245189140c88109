import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """Multi-head attention as in the Transformer paper."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        b = query.size(0)
        q = query.view(b, -1, self.num_heads, self.d_k).transpose(1, 2)
        k = key.view(b, -1, self.num_heads, self.d_k).transpose(1, 2)
        v = value.view(b, -1, self.num_heads, self.d_k).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = torch.softmax(scores, dim=-1) @ v
        return self.W_o(out.transpose(1, 2).contiguous().view(b, -1, self.num_heads * self.d_k))
