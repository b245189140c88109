import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B = q.size(0)
        q, k, v = (
            w(t).view(B, -1, self.h, self.d_k).transpose(1, 2) for w, t in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        s = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            s = s.masked_fill(mask == 0, float("-inf"))
        return self.w_o((F.softmax(s, -1) @ v).transpose(1, 2).reshape(B, -1, self.h * self.d_k))


class DecoderLayer(nn.Module):
    """tgt: (B, T, D), memory: (B, S, D), tgt_mask: (B, 1, T, T), memory_mask: (B, 1, 1, S); 1 = attend"""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.cross_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, tgt_mask=None, memory_mask=None):
        x = self.norm1(x + self.dropout(self.self_attn(x, x, x, tgt_mask)))
        x = self.norm2(x + self.dropout(self.cross_attn(x, x, x, tgt_mask)))
        x = self.norm3(x + self.dropout(self.feed_forward(x)))
        return x


if __name__ == "__main__":
    layer = DecoderLayer(32, 4, 64)
    print(layer(torch.randn(2, 5, 32), torch.randn(2, 8, 32)).shape)
