import math

import torch
from torch import nn


class MaskedSelfAttention(nn.Module):
    """Decoder self attention, must not see the future."""

    def __init__(self, d_model, num_heads, max_len=512):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.register_buffer("future_mask", torch.triu(torch.ones(max_len, max_len), diagonal=1).bool())

    def forward(self, x):
        batch, seq_len, d_model = x.shape
        shape = (batch, seq_len, self.num_heads, self.d_k)
        q = self.q_proj(x).view(shape).transpose(1, 2)
        k = self.k_proj(x).view(shape).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        scores += self.future_mask[:seq_len, :seq_len]
        attn = scores.softmax(dim=-1)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(batch, seq_len, d_model)
        return self.out_proj(out)
