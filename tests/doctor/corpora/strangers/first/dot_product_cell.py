import torch
import torch.nn as nn


class ScaledDotProduct(nn.Module):
    """softmax(QK^T / sqrt(d)) V  with an optional mask (1 = keep, 0 = drop)"""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        score = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
        if mask == True:
            score = score.masked_fill(mask == 0, -1e9)
        weight = self.dropout(self.softmax(score))
        return weight @ v, weight


attn = ScaledDotProduct()
q, k, v = torch.randn(2, 4, 16), torch.randn(2, 6, 16), torch.randn(2, 6, 16)
out, weight = attn(q, k, v)
print(out.shape, weight.shape)
