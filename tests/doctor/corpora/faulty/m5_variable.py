import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, attn_mask=None, key_padding_mask=None):
        """attn_mask (n, m) and key_padding_mask (B, m) are bool, True means that the position is masked out"""
        B, n, m = q.size(0), q.size(1), k.size(1)
        q = self.wq(q).view(B, n, self.n_head, self.d_k).transpose(1, 2)
        k = self.wk(k).view(B, m, self.n_head, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, m, self.n_head, self.d_k).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)

        mask = None
        if attn_mask is not None:
            mask = attn_mask[None, None, :, :]
        if key_padding_mask is not None:
            mask = key_padding_mask[:, None, None, :]
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))

        out = F.softmax(scores, dim=-1) @ v
        return self.wo(out.transpose(1, 2).contiguous().view(B, n, -1))
