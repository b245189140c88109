import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, d_model):
        super().__init__()
        assert d_model % num_heads == 0
        self.h = num_heads
        self.d = d_model // num_heads
        self.linear_layers = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(3)])
        self.output_linear = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        bs = query.size(0)
        query, key, value = [
            l(x).view(bs, -1, self.h, self.d).transpose(1, 2) for l, x in zip(self.linear_layers, (query, key, value))
        ]
        scores = torch.matmul(query, key.transpose(-2, -1)) / self.d**0.5
        if mask is not None:
            # mask is 0 at [PAD]
            scores = scores.masked_fill(mask == 0, 1e-9)
        p_attn = F.softmax(scores, dim=-1)
        x = torch.matmul(p_attn, value)
        return self.output_linear(x.transpose(1, 2).contiguous().view(bs, -1, self.h * self.d))
