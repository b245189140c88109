import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        b = q.size(0)
        q = self.q(q).view(b, -1, self.h, self.d_k).transpose(1, 2)
        k = self.k(k).view(b, -1, self.h, self.d_k).transpose(1, 2)
        v = self.v(v).view(b, -1, self.h, self.d_k).transpose(1, 2)
        s = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            s = s.masked_fill(mask == 0, float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, -1, self.h * self.d_k))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, h, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, h)
        self.src_attn = MultiHeadAttention(d_model, h)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, tgt_mask=None, src_mask=None):
        """masks: 0 = hidden; tgt_mask (B, 1, T, T), src_mask (B, 1, 1, S)"""
        x = self.norm1(x + self.self_attn(x, x, x, tgt_mask))
        x = self.norm2(x + self.src_attn(x, memory, memory, src_mask))
        x = self.norm2(x + self.ff(x))
        return x


if __name__ == "__main__":
    print(DecoderLayer(32, 4, 64)(torch.randn(2, 5, 32), torch.randn(2, 6, 32)).shape)
