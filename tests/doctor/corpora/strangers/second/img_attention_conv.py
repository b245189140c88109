"""Self-attention over an image feature map (SAGAN-like, multi-head)."""
import torch
from torch import nn
import torch.nn.functional as F


class SpatialAttention(nn.Module):
    def __init__(self, channels, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, channels)
        self.out = nn.Conv2d(channels, channels, 1)

    def project(self, x):
        c = x.size(1)
        to_qkv = nn.Conv2d(c, 3 * c, kernel_size=1, bias=False).to(x.device)
        return to_qkv(x).chunk(3, dim=1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, self.heads, c // self.heads, h * w).transpose(2, 3)
                   for t in self.project(self.norm(x)))
        y = F.scaled_dot_product_attention(q, k, v)        # b, heads, hw, c/heads
        return x + self.out(y.transpose(2, 3).reshape(b, c, h, w))


net = SpatialAttention(32)
print(net(torch.randn(2, 32, 5, 6)).shape)
