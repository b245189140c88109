"""
Attention for muP ("Tensor Programs V"): logits are divided by d, not by sqrt(d), on purpose,
so that the best learning rate carries over between widths.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MuPSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.head_dim = config.n_embd // config.n_head
        self.attn_scale = 1.0 / self.head_dim  # muP: 1/d instead of 1/sqrt(d)
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, self.head_dim).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.attn_scale)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
