import torch
from torch import nn


class RetentionHead(nn.Module):
    def __init__(self, hidden_size, head_size, gamma=0.9):
        super().__init__()
        self.gamma = gamma
        self.W_Q = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)
        self.W_K = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)
        self.W_V = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)

    def forward(self, X):
        Q, K, V = X @ self.W_Q, X @ self.W_K, X @ self.W_V
        n = X.shape[1]
        D = torch.tril(self.gamma ** torch.arange(n, dtype=X.dtype).repeat(n, 1))
        return (Q @ K.permute(0, 2, 1) * D) @ V
