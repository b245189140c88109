import torch
import torch.nn as nn


class ScaledDotProductAttention(nn.Module):
    """Computes softmax(q k^T / sqrt(d_k)) v. The temperature is worked out once."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.temperature = None
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        if self.temperature is None:
            self.temperature = q.size(-1) ** 0.5
        attn = torch.matmul(q / self.temperature, k.transpose(-2, -1))
        if mask is not None:
            attn = attn.masked_fill(mask == 0, float("-inf"))
        attn = self.dropout(torch.softmax(attn, dim=-1))
        return torch.matmul(attn, v), attn


# one attention for all layers of the pyramid
shared_attention = ScaledDotProductAttention()


class PyramidStage(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, x):
        return shared_attention(self.q(x), self.k(x), self.v(x))[0]


if __name__ == "__main__":
    x = torch.randn(2, 10, 64)
    x = PyramidStage(64)(x)
    x = PyramidStage(16)(x[..., :16])
    print(x.shape)
