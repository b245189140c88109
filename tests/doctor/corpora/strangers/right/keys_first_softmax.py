import torch
from torch import nn


class ColumnAttention(nn.Module):
    """column convention: tokens are columns, as in the maths books.  S = K^T Q / sqrt(d), each COLUMN is a query."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.dh = heads, d // heads
        self.Wq = nn.Parameter(torch.randn(d, d) / d ** 0.5)
        self.Wk = nn.Parameter(torch.randn(d, d) / d ** 0.5)
        self.Wv = nn.Parameter(torch.randn(d, d) / d ** 0.5)
        self.Wo = nn.Parameter(torch.randn(d, d) / d ** 0.5)

    def forward(self, X, keep=None):
        """X (B, n, d) as usual; keep (B, n) bool over keys"""
        B, n, d = X.shape
        Xc = X.transpose(1, 2)                                         # (B, d, n)
        Q, K, V = ((W @ Xc).view(B, self.heads, self.dh, n) for W in (self.Wq, self.Wk, self.Wv))
        S = K.transpose(-1, -2) @ Q / self.dh ** 0.5                   # (B, h, keys, queries)
        if keep is not None:
            S = S.masked_fill(~keep[:, None, :, None], float("-inf"))
        A = S.softmax(dim=-2)                                          # every column sums to one
        Y = (V @ A).reshape(B, d, n)
        return (self.Wo @ Y).transpose(1, 2)
