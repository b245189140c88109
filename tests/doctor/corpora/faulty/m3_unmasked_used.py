from math import sqrt

import torch
from torch import nn


class Attention(nn.Module):
    """x: [B, N, C]; attn_mask: [B, N] with 1 for words and 0 for <pad>"""

    def __init__(self, C, num_heads):
        super().__init__()
        self.H = num_heads
        self.Wqkv = nn.Parameter(torch.randn(3, C, C) / sqrt(C))
        self.Wo = nn.Parameter(torch.randn(C, C) / sqrt(C))

    def forward(self, x, attn_mask=None):
        B, N, C = x.shape
        q, k, v = torch.einsum("bnc,scd->sbnd", x, self.Wqkv).reshape(3, B, N, self.H, C // self.H).transpose(2, 3)
        score = q @ k.mT / sqrt(C // self.H)
        if attn_mask is not None:
            masked_score = score.masked_fill(attn_mask[:, None, None, :] == 0, torch.finfo(score.dtype).min)
        else:
            masked_score = score
        alpha = torch.softmax(score, -1)
        y = (alpha @ v).transpose(1, 2).reshape(B, N, C)
        return y @ self.Wo
