import torch
from torch import nn


class NonLocalBlock(nn.Module):
    """Embedded-Gaussian non-local block for (B, C, T, H, W) clips."""

    def __init__(self, channels, inter=None):
        super().__init__()
        self.inter = inter or channels // 2
        self.theta = nn.Conv3d(channels, self.inter, 1)
        self.phi = nn.Conv3d(channels, self.inter, 1)
        self.g = nn.Conv3d(channels, self.inter, 1)
        self.W = nn.Conv3d(self.inter, channels, 1)

    def forward(self, x):
        B, C = x.shape[:2]
        theta = self.theta(x).flatten(2).transpose(1, 2)     # B, N, C'
        phi = self.phi(x).flatten(2)                         # B, C', N
        g = self.g(x).flatten(2).transpose(1, 2)             # B, N, C'
        f = theta @ phi / self.inter ** 0.5
        f_div = torch.softmax(f, dim=1)
        y = f_div @ g
        y = y.transpose(1, 2).reshape(B, self.inter, *x.shape[2:])
        return x + self.W(y)


if __name__ == "__main__":
    print(NonLocalBlock(8)(torch.randn(2, 8, 2, 4, 4)).shape)
