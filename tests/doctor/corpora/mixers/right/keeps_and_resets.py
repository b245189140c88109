import torch
from torch import nn


class StreamingRetention(nn.Module):
    """Goes on where the last call stopped, until reset() is called."""

    def __init__(self, dim, gamma=0.95):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.gamma, self.state = gamma, None

    def reset(self):
        self.state = None

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        state = self.state if self.state is not None else x.new_zeros(x.shape[0], x.shape[2], x.shape[2])
        out = []
        for t in range(x.shape[1]):
            state = self.gamma * state + k[:, t, :, None] * v[:, t, None, :]
            out.append((q[:, t, None] @ state)[:, 0])
        self.state = state
        return torch.stack(out, 1)
