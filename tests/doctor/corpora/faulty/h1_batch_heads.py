"""Multi-head attention with the heads folded into the batch."""

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, model_dim=512, num_heads=8, dropout=0.0):
        super().__init__()

        self.dim_per_head = model_dim // num_heads
        self.num_heads = num_heads
        self.linear_k = nn.Linear(model_dim, self.dim_per_head * num_heads)
        self.linear_v = nn.Linear(model_dim, self.dim_per_head * num_heads)
        self.linear_q = nn.Linear(model_dim, self.dim_per_head * num_heads)

        self.softmax = nn.Softmax(dim=2)
        self.dropout = nn.Dropout(dropout)
        self.linear_final = nn.Linear(model_dim, model_dim)

    def forward(self, key, value, query, attn_mask=None):
        """attn_mask: (batch, len_q, len_k), True is masked"""
        batch_size = key.size(0)

        key = self.linear_k(key)
        value = self.linear_v(value)
        query = self.linear_q(query)

        # split by heads
        key = key.view(batch_size * self.num_heads, -1, self.dim_per_head)
        value = value.view(batch_size * self.num_heads, -1, self.dim_per_head)
        query = query.view(batch_size * self.num_heads, -1, self.dim_per_head)

        attention = torch.bmm(query, key.transpose(1, 2)) * self.dim_per_head**-0.5
        if attn_mask is not None:
            attention = attention.masked_fill(attn_mask.repeat_interleave(self.num_heads, 0), -torch.inf)
        attention = self.dropout(self.softmax(attention))
        context = torch.bmm(attention, value)

        # concat heads
        context = context.view(batch_size, self.num_heads, -1, self.dim_per_head)
        context = context.transpose(1, 2).reshape(batch_size, -1, self.num_heads * self.dim_per_head)
        return self.linear_final(context), attention


if __name__ == "__main__":
    x = torch.randn(2, 10, 512)
    print(MultiHeadAttention()(x, x, x)[0].shape)
