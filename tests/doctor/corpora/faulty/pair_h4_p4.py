import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    """Multi-head self attention"""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.q_lin = nn.Linear(d_model, d_model)
        self.k_lin = nn.Linear(d_model, d_model)
        self.v_lin = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = self.q_lin(x), self.k_lin(x), self.v_lin(x)
        scores = q.bmm(k.transpose(1, 2)) / self.d_model**0.5
        if mask is not None:  # (batch, n, n), 0 = hidden
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return F.softmax(scores, dim=2).bmm(v)
