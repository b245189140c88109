import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    """Split into heads, attend in every head, concatenate, project."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.out = nn.Linear(d_model, d_model)

    def split_heads(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.split_heads(query), self.split_heads(key), self.split_heads(value)
        scores = q @ k.transpose(-2, -1) / self.d_k ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        ctx = F.softmax(scores, dim=-1) @ v
        b, _, n, _ = ctx.shape
        return self.out(ctx.transpose(1, 2).reshape(b, n, -1))


x = torch.rand(2, 6, 32)
print(MultiHeadAttention(32, 4)(x, x, x).size())
