import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadedSelfAttentionModule(nn.Module):
    """Pre-norm self attention module for acoustic frames, inputs (batch, time, dim)."""

    def __init__(self, d_model: int = 144, num_heads: int = 4, dropout_p: float = 0.1):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.sqrt_dim = math.sqrt(num_heads)
        self.layer_norm = nn.LayerNorm(d_model)
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, inputs, frame_mask=None):
        # frame_mask: (batch, time), True for padded frames
        b, t, _ = inputs.size()
        x = self.layer_norm(inputs)
        q = self.query_proj(x).view(b, t, self.num_heads, self.d_head).transpose(1, 2)
        k = self.key_proj(x).view(b, t, self.num_heads, self.d_head).transpose(1, 2)
        v = self.value_proj(x).view(b, t, self.num_heads, self.d_head).transpose(1, 2)
        score = torch.matmul(q, k.transpose(2, 3)) / self.sqrt_dim
        if frame_mask is not None:
            score = score.masked_fill(frame_mask[:, None, None, :], -1e9)
        attn = self.dropout(F.softmax(score, -1))
        context = torch.matmul(attn, v).transpose(1, 2).contiguous().view(b, t, -1)
        return inputs + self.dropout(self.out_proj(context))
