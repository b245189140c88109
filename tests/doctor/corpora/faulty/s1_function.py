# attention.py -- building blocks for my translation model
import torch
import torch.nn.functional as F
from torch import nn


def scaled_dot_product(q, k, v, mask=None):
    """
    q, k, v: (batch, heads, seq, d_k)
    mask:    broadcastable to (batch, heads, seq_q, seq_k), zeros are not attended to
    """
    d_k = q.size(-1)
    scale = d_k**-0.5
    scores = torch.matmul(q, k.transpose(-2, -1)) / scale
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, v), weights


class MultiHead(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        assert d_model % n_heads == 0
        self.h = n_heads
        self.d_k = d_model // n_heads
        self.to_q = nn.Linear(d_model, d_model, bias=False)
        self.to_k = nn.Linear(d_model, d_model, bias=False)
        self.to_v = nn.Linear(d_model, d_model, bias=False)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        b = q.size(0)
        q = self.to_q(q).view(b, -1, self.h, self.d_k).transpose(1, 2)
        k = self.to_k(k).view(b, -1, self.h, self.d_k).transpose(1, 2)
        v = self.to_v(v).view(b, -1, self.h, self.d_k).transpose(1, 2)
        out, _ = scaled_dot_product(q, k, v, mask)
        return self.to_out(out.transpose(1, 2).contiguous().view(b, -1, self.h * self.d_k))


if __name__ == "__main__":
    x = torch.rand(4, 12, 64)
    print(MultiHead(64, 8)(x, x, x).shape)
