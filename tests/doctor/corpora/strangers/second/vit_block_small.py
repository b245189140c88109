import torch
from torch import nn
import torch.nn.functional as F


class ViTBlock(nn.Module):
    """LN -> attention -> add, LN -> MLP -> add"""

    def __init__(self, d=64, h=4):
        super().__init__()
        self.h = h
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.in_proj, self.out_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def self_attention(self, y):
        b, n, d = y.shape
        q, k, v = self.in_proj(y).reshape(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))

    def forward(self, inp):
        x = self.ln_1(inp)
        x = self.self_attention(x) + x
        y = self.ln_2(x)
        return self.mlp(y) + x


if __name__ == "__main__":
    print(ViTBlock()(torch.randn(2, 10, 64)).shape)
