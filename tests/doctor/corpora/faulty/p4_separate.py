import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        batch = q.shape[0]
        q = self.W_q(q).view(batch, -1, self.num_heads, self.d_head).transpose(1, 2)
        k = self.W_k(k).view(batch, -1, self.num_heads, self.d_head).transpose(1, 2)
        v = self.W_v(v).view(batch, -1, self.num_heads, self.d_head).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / (self.d_head**0.5)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        heads = torch.matmul(weights, v)
        # concatenate the heads
        return heads.transpose(1, 2).contiguous().view(batch, -1, self.num_heads * self.d_head), weights
