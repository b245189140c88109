import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    """Multi-head attention from "Attention is all you need"."""

    def __init__(self, d_model=128, num_heads=8):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        # project the inputs for every head
        q = self.W_q(q)
        k = self.W_k(k)
        v = self.W_v(v)

        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return self.W_o(weights @ v), weights


if __name__ == "__main__":
    x = torch.randn(2, 10, 128)
    out, w = MultiHeadAttention()(x, x, x)
    print(out.shape, w.shape)
