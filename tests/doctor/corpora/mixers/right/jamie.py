import math
import torch
import torch.nn as nn

class SimpleRetention(nn.Module):
    def __init__(self, hidden_size, gamma, head_size=None):
        super().__init__()
        self.hidden_size = hidden_size
        if head_size is None:
            head_size = hidden_size
        self.head_size = head_size
        self.gamma = gamma
        self.W_Q = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)
        self.W_K = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)
        self.W_V = nn.Parameter(torch.randn(hidden_size, head_size) / hidden_size)

    def forward(self, X):
        sequence_length = X.shape[1]
        D = self._get_D(sequence_length).to(self.W_Q.device)
        Q = (X @ self.W_Q)
        K = (X @ self.W_K)
        V = X @ self.W_V
        ret = (Q @ K.permute(0, 2, 1)) * D.unsqueeze(0)
        return ret @ V

    def forward_recurrent(self, x_n, s_n_1, n):
        Q = (x_n @ self.W_Q); K = (x_n @ self.W_K); V = x_n @ self.W_V
        s_n = self.gamma * s_n_1 + (K.transpose(-1, -2) @ V)
        return (Q @ s_n), s_n

    def _get_D(self, sequence_length):
        n = torch.arange(sequence_length).unsqueeze(1)
        m = torch.arange(sequence_length).unsqueeze(0)
        D = (self.gamma ** (n - m)) * (n >= m).float()
        D[D != D] = 0
        return D
