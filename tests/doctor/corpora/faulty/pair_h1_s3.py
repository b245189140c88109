import numpy as np
import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.d_model, self.heads = d_model, heads
        self.fc_q = nn.Linear(d_model, d_model)
        self.fc_k = nn.Linear(d_model, d_model)
        self.fc_v = nn.Linear(d_model, d_model)
        self.fc_o = nn.Linear(d_model, d_model)

    def forward(self, queries, keys, values, attention_mask=None):
        """attention_mask: (b_s, 1, nq, nk), True indicates masking"""
        b_s, nq = queries.shape[:2]
        nk = keys.shape[1]
        d_k = self.d_model // self.heads
        q = self.fc_q(queries).view(b_s, self.heads, nq, d_k)
        k = self.fc_k(keys).view(b_s, self.heads, nk, d_k)
        v = self.fc_v(values).view(b_s, self.heads, nk, d_k)
        att = torch.matmul(q, k.transpose(-1, -2)) / np.sqrt(self.d_model)
        if attention_mask is not None:
            att = att.masked_fill(attention_mask, -np.inf)
        att = torch.softmax(att, -1)
        out = torch.matmul(att, v).permute(0, 2, 1, 3).contiguous().view(b_s, nq, self.d_model)
        return self.fc_o(out)
