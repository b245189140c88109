import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """Used for self attention in the encoder and for encoder-decoder attention in the decoder."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.d_model = d_model
        self.n_heads = n_heads
        self.head_dim = d_model // n_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        batch_size, seq_len, _ = query.shape

        Q = self.wq(query).view(batch_size, seq_len, self.n_heads, self.head_dim).transpose(1, 2)
        K = self.wk(key).view(batch_size, seq_len, self.n_heads, self.head_dim).transpose(1, 2)
        V = self.wv(value).view(batch_size, seq_len, self.n_heads, self.head_dim).transpose(1, 2)

        scores = Q @ K.transpose(-2, -1) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = scores.softmax(-1) @ V
        return self.wo(out.transpose(1, 2).reshape(batch_size, seq_len, self.d_model))
