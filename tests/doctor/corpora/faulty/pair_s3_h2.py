import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_model = d_model
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        b = q.size(0)
        q = self.wq(q).view(b, -1, self.n_heads, self.d_head).transpose(1, 2)
        k = self.wk(k).view(b, -1, self.n_heads, self.d_head).transpose(1, 2)
        v = self.wv(v).view(b, -1, self.n_heads, self.d_head).transpose(1, 2)
        attn = q @ k.transpose(-2, -1) / math.sqrt(self.d_model)
        if mask is not None:
            attn = attn.masked_fill(mask == 0, float("-inf"))
        attn = torch.softmax(attn, dim=-1)
        out = torch.matmul(attn, v).reshape(b, -1, self.d_model)
        return self.wo(out)


if __name__ == "__main__":
    x = torch.randn(2, 8, 64)
    print(MultiHeadAttention(64, 8)(x, x, x).shape)
