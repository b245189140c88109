import math
import torch
from torch import nn


class TemporalAttention(nn.Module):
    """Attention over time. x: (T, B, C)."""

    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.d = heads, c // heads
        self.qkv = nn.Linear(c, 3 * c)
        self.out = nn.Linear(c, c)

    def forward(self, x):
        T, B, C = x.shape
        q, k, v = (t.view(T, B, self.heads, self.d).permute(1, 2, 0, 3) for t in self.qkv(x).chunk(3, -1))
        w = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.d), dim=-1)
        y = (w @ v).permute(2, 0, 1, 3).reshape(T, B, C)
        return self.out(y)


class FrameEncoder(nn.Module):
    def __init__(self, c=48, heads=4):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, c, 4, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.norm = nn.LayerNorm(c)
        self.attn = TemporalAttention(c, heads)

    def forward(self, video):
        # video: (B, T, 3, H, W)
        B, T = video.shape[:2]
        f = self.backbone(video.flatten(0, 1)).flatten(1).view(B, T, -1)
        f = f + self.attn(self.norm(f))
        return f.mean(1)


if __name__ == "__main__":
    print(FrameEncoder()(torch.randn(2, 5, 3, 16, 16)).shape)
