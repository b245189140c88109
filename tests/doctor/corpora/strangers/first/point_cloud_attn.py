import torch
import torch.nn as nn


class PointAttention(nn.Module):
    """Attention between points. xyz features (B, P, C), valid (B, P) bool tells which points exist."""

    def __init__(self, c, groups=2):
        super().__init__()
        self.g = groups
        self.theta = nn.Linear(c, c)
        self.phi = nn.Linear(c, c)
        self.psi = nn.Linear(c, c)
        self.final = nn.Linear(c, c)

    def forward(self, f, valid=None):
        B, P, C = f.shape
        dim = C // self.g
        a = self.theta(f).view(B, P, self.g, dim).permute(0, 2, 1, 3)
        b = self.phi(f).view(B, P, self.g, dim).permute(0, 2, 1, 3)
        c = self.psi(f).view(B, P, self.g, dim).permute(0, 2, 1, 3)
        affinity = torch.matmul(a, b.transpose(2, 3)).div(dim ** 0.5)
        if valid is not None:
            affinity = affinity.masked_fill(~valid[:, None, None, :], 0.)
        weights = torch.softmax(affinity, dim=3)
        out = torch.matmul(weights, c).permute(0, 2, 1, 3).reshape(B, P, C)
        return f + self.final(out)


if __name__ == "__main__":
    valid = torch.arange(12)[None] < torch.tensor([12, 7])[:, None]
    print(PointAttention(16)(torch.randn(2, 12, 16), valid).shape)
