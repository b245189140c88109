import torch
from torch import nn


class RetentionHead(nn.Module):
    """One head of retention, in parallel and one token at a time."""

    def __init__(self, hidden_size, head_size, gamma=0.9):
        super().__init__()
        self.gamma = gamma
        self.W_Q = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)
        self.W_K = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)
        self.W_V = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)

    def forward(self, X):
        Q, K, V = X @ self.W_Q, X @ self.W_K, X @ self.W_V
        return (Q @ K.permute(0, 2, 1) * self._get_D(X.shape[1]).to(X)) @ V

    def _get_D(self, n):
        i, j = torch.arange(n).unsqueeze(1), torch.arange(n).unsqueeze(0)
        D = (self.gamma ** (i - j)) * (i >= j).float()
        D[D != D] = 0
        return D
