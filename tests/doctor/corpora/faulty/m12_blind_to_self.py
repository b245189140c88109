import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, n_embed, head_size, context_length):
        super().__init__()
        self.key = nn.Linear(n_embed, head_size, bias=False)
        self.query = nn.Linear(n_embed, head_size, bias=False)
        self.value = nn.Linear(n_embed, head_size, bias=False)
        self.register_buffer("future", torch.triu(torch.ones(context_length, context_length), diagonal=0).bool())

    def forward(self, x):
        T = x.shape[1]
        k, q, v = self.key(x), self.query(x), self.value(x)
        affinity = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        affinity = affinity.masked_fill(self.future[:T, :T], -torch.inf)
        return affinity.softmax(-1) @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, n_embed, n_heads, context_length):
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embed, n_embed // n_heads, context_length) for _ in range(n_heads)])
        self.proj = nn.Linear(n_embed, n_embed)

    def forward(self, x):
        x = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.proj(x)
