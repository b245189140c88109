import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=128, n_heads=8):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        # mask: (batch, 1, n, m), True = masked
        B, n, D = q.shape
        q = self.W_q(q).view(B, -1, self.n_heads, self.d_k).transpose(1, 2)
        k = self.W_k(k).view(B, -1, self.n_heads, self.d_k).transpose(1, 2)
        v = self.W_v(v).view(B, -1, self.n_heads, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        attn = torch.softmax(scores, dim=-1)
        if mask is not None:
            # rows without any key would be nan
            attn[mask.expand_as(attn)] = 0.0
        out = torch.matmul(attn, v).transpose(1, 2).reshape(B, n, D)
        return self.W_o(out)
