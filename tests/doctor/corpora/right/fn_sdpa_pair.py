"""Attention and an encoder block, notebook exported to a script"""

import torch
import torch.nn as nn
import torch.nn.functional as F


def scaled_dot_product(q, k, v, mask=None):
    logits = torch.matmul(q, k.transpose(-2, -1)) / q.size()[-1] ** 0.5
    if mask is not None:
        logits = logits.masked_fill(mask == 0, -9e15)
    attention = F.softmax(logits, dim=-1)
    return torch.matmul(attention, v), attention


class MultiheadAttention(nn.Module):
    """q, k and v of one head lie side by side in the fused projection: (head, 3, dim)"""

    def __init__(self, input_dim, embed_dim, num_heads):
        super().__init__()
        assert embed_dim % num_heads == 0, "num_heads must divide embed_dim"
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(input_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)
        for lin in (self.qkv_proj, self.o_proj):
            nn.init.xavier_uniform_(lin.weight)
            nn.init.zeros_(lin.bias)

    def forward(self, x, mask=None, return_attention=False):
        if mask is not None:  # (S, S) or (B, S, S)
            mask = mask[:, None] if mask.ndim == 3 else mask[None, None]
        per_head = self.qkv_proj(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        values, attention = scaled_dot_product(*per_head.chunk(3, dim=-1), mask=mask)
        o = self.o_proj(values.transpose(1, 2).flatten(2))
        return (o, attention) if return_attention else o


class EncoderBlock(nn.Module):
    def __init__(self, input_dim, num_heads, dim_feedforward, dropout=0.0):
        super().__init__()
        self.self_attn = MultiheadAttention(input_dim, input_dim, num_heads)
        self.linear_net = nn.Sequential(
            nn.Linear(input_dim, dim_feedforward),
            nn.Dropout(dropout),
            nn.ReLU(inplace=True),
            nn.Linear(dim_feedforward, input_dim),
        )
        self.norm1, self.norm2 = nn.LayerNorm(input_dim), nn.LayerNorm(input_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.self_attn(x, mask=mask)))
        return self.norm2(x + self.dropout(self.linear_net(x)))


if __name__ == "__main__":
    torch.manual_seed(42)
    q, k, v = torch.randn(3, 4, 2)
    print(*scaled_dot_product(q, k, v), sep="\n")
