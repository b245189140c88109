"""Attention for a speech encoder. The fused projection keeps each head's q, k and v next to one another."""

from typing import Optional

import torch
from torch import Tensor, nn


class MultiheadSelfAttention(nn.Module):
    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} is no multiple of num_heads {num_heads}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scale = self.head_dim**-0.5

        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.qkv_proj.weight)
        self.qkv_proj.bias.data.fill_(0)
        nn.init.xavier_uniform_(self.o_proj.weight)
        self.o_proj.bias.data.fill_(0)

    def forward(self, x: Tensor, key_padding_mask: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:
        """x: (batch, time, embed_dim); key_padding_mask: (batch, time), True where the frame is padding."""
        batch, time, _ = x.size()
        qkv = self.qkv_proj(x)
        qkv = qkv.reshape(batch, time, self.num_heads, 3 * self.head_dim)
        qkv = qkv.permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)

        logits = torch.matmul(q, k.transpose(-2, -1))
        if key_padding_mask is not None:
            logits = logits.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
        attention = logits.softmax(dim=-1)
        values = torch.matmul(self.dropout(attention), v)

        values = values.permute(0, 2, 1, 3).reshape(batch, time, self.embed_dim)
        return self.o_proj(values), attention
