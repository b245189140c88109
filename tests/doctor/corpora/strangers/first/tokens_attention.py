import torch
import torch.nn as nn

BATCH = 8
SEQ = 8


class SelfAttention(nn.Module):
    """x: (batch, seq, dim), mask: (batch, seq) with True for real tokens"""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        scores = torch.einsum("bid,bjd->bij", q, k) / self.dim ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-1e9"))
        return torch.einsum("bij,bjd->bid", scores.softmax(dim=-1), v)


if __name__ == "__main__":
    lengths = torch.randint(2, SEQ + 1, (BATCH,))
    mask = torch.arange(SEQ)[None, :] < lengths[:, None]
    print(SelfAttention(16)(torch.randn(BATCH, SEQ, 16), mask).shape)
