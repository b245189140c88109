import math
from typing import Optional

import torch
from torch import nn


class HeadProjection(nn.Module):
    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool):
        super().__init__()
        self.linear = nn.Linear(d_model, heads * d_k, bias=bias)
        self.heads = heads
        self.d_k = d_k

    def forward(self, x: torch.Tensor):
        return self.linear(x).unflatten(-1, (self.heads, self.d_k))


class MultiHeadAttention(nn.Module):
    """Multi-head attention; query, key and value have shape [seq_len, batch_size, d_model]."""

    def __init__(self, heads: int, d_model: int, bias: bool = True):
        super().__init__()
        self.d_k = d_model // heads
        self.heads = heads
        self.query = HeadProjection(d_model, heads, self.d_k, bias=bias)
        self.key = HeadProjection(d_model, heads, self.d_k, bias=bias)
        self.value = HeadProjection(d_model, heads, self.d_k, bias=True)
        self.softmax = nn.Softmax(dim=0)
        self.output = nn.Linear(d_model, d_model)
        self.scale = 1 / math.sqrt(self.d_k)
        self.attn = None

    def forward(
        self, *, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Optional[torch.Tensor] = None
    ):
        """mask: [seq_len_q, seq_len_k, batch_size], zero for hidden pairs"""
        seq_len, batch_size, _ = query.shape
        query = self.query(query)
        key = self.key(key)
        value = self.value(value)
        scores = torch.einsum("ibhd,jbhd->ijbh", query, key) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(-1) == 0, float("-inf"))
        attn = self.softmax(scores)
        self.attn = attn.detach()
        x = torch.einsum("ijbh,jbhd->ibhd", attn, value)
        return self.output(x.reshape(seq_len, batch_size, -1))


if __name__ == "__main__":
    x = torch.randn(7, 2, 32)
    print(MultiHeadAttention(4, 32)(query=x, key=x, value=x).shape)
