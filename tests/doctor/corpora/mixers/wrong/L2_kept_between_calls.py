import torch
from torch import nn


class Retention(nn.Module):
    def __init__(self, dim, gamma=0.95):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.gamma, self.state = gamma, None

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.state is None:
            self.state = x.new_zeros(x.shape[0], x.shape[2], x.shape[2])
        out = []
        for t in range(x.shape[1]):
            self.state = self.gamma * self.state + k[:, t, :, None] * v[:, t, None, :]
            out.append((q[:, t, None] @ self.state)[:, 0])
        return torch.stack(out, 1)
