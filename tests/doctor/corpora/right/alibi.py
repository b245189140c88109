# ALiBi: Train Short, Test Long
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_slopes(n_heads: int):
    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n_heads).is_integer():
        return power_of_2(n_heads)
    closest = 2 ** math.floor(math.log2(n_heads))
    return power_of_2(closest) + get_slopes(2 * closest)[0::2][: n_heads - closest]


class ALiBiMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len=1024, causal=True, dropout=0.0):
        super().__init__()
        self.causal = causal
        self.num_heads = num_heads
        self.scale = math.sqrt(d_model // num_heads)
        self.kqv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("m", torch.tensor(get_slopes(num_heads))[:, None, None])
        if causal:
            self.register_buffer("mask", torch.tril(torch.ones(1, 1, max_len, max_len)))

    @staticmethod
    def get_relative_positions(seq_len):
        x = torch.arange(seq_len)[None, :]
        y = torch.arange(seq_len)[:, None]
        return x - y

    def forward(self, x):
        batch_size, seq_len, d_model = x.shape
        key, query, value = self.kqv(x).chunk(3, dim=-1)  # k first!
        key = key.view(batch_size, seq_len, self.num_heads, -1).permute(0, 2, 3, 1)
        query = query.view(batch_size, seq_len, self.num_heads, -1).transpose(1, 2)
        value = value.view(batch_size, seq_len, self.num_heads, -1).transpose(1, 2)

        dist = -self.get_relative_positions(seq_len).abs().to(self.m.device)
        bias = (self.m * dist).unsqueeze(0)

        score = torch.matmul(query, key) / self.scale + bias
        if self.causal:
            score = score.masked_fill(self.mask[:, :, :seq_len, :seq_len] == 0, float("-inf"))
        attn = self.dropout(F.softmax(score, dim=-1))
        out = torch.matmul(attn, value).transpose(1, 2).reshape(batch_size, seq_len, -1)
        return self.out(out)
