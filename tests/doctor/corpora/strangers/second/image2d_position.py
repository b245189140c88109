import math
import torch
from torch import nn


class PositionEncodingSine(nn.Module):
    """2-dimensional sinusoidal encoding for feature maps (N, C, H, W)."""

    def __init__(self, d_model, max_shape=(64, 64)):
        super().__init__()
        pe = torch.zeros((d_model, *max_shape))
        y_position = torch.ones(max_shape).cumsum(0).float().unsqueeze(0)
        x_position = torch.ones(max_shape).cumsum(1).float().unsqueeze(0)
        div_term = torch.exp(torch.arange(0, d_model // 2, 2).float() * (-math.log(10000.0) / d_model // 2))
        div_term = div_term[:, None, None]  # [C//4, 1, 1]
        pe[0::4] = torch.sin(x_position * div_term)
        pe[1::4] = torch.cos(x_position * div_term)
        pe[2::4] = torch.sin(y_position * div_term)
        pe[3::4] = torch.cos(y_position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)

    def forward(self, x):
        return x + self.pe[:, :, :x.size(2), :x.size(3)]


class FeatureAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.pos = PositionEncodingSine(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, feat):
        n, c, h, w = feat.shape
        t = self.pos(feat).flatten(2).transpose(1, 2)
        t = t + self.attn(t, t, t, need_weights=False)[0]
        return t.transpose(1, 2).reshape(n, c, h, w)


if __name__ == "__main__":
    print(FeatureAttention()(torch.randn(1, 32, 6, 5)).shape)
