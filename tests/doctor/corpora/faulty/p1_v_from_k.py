import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_size: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.q_proj = nn.Linear(hidden_size, hidden_size)
        self.k_proj = nn.Linear(hidden_size, hidden_size)
        self.v_proj = nn.Linear(hidden_size, hidden_size)
        self.o_proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, query, key, value, mask=None):
        b = query.size(0)
        q = self.q_proj(query).view(b, -1, self.num_heads, self.head_size).transpose(1, 2)
        k = self.k_proj(key).view(b, -1, self.num_heads, self.head_size).transpose(1, 2)
        v = self.k_proj(value).view(b, -1, self.num_heads, self.head_size).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / self.head_size**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        context = F.softmax(scores, dim=-1) @ v
        return self.o_proj(context.transpose(1, 2).flatten(2))
