import torch
from torch import nn
import torch.nn.functional as F


class TransformerBlock(nn.Module):
    def __init__(self, k=48, heads=4, hidden=4):
        super().__init__()
        self.heads = heads
        self.tokeys, self.toqueries, self.tovalues = nn.Linear(k, k), nn.Linear(k, k), nn.Linear(k, k)
        self.unifyheads = nn.Linear(k, k)
        self.norm1, self.norm2 = nn.LayerNorm(k), nn.LayerNorm(k)
        self.ff = nn.Sequential(nn.Linear(k, hidden * k), nn.ReLU(), nn.Linear(hidden * k, k))

    def attention(self, x):
        b, t, k = x.shape
        q, ke, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2)
                    for f in (self.toqueries, self.tokeys, self.tovalues))
        return self.unifyheads(F.scaled_dot_product_attention(q, ke, v).transpose(1, 2).reshape(b, t, k))

    def forward(self, x):
        attended = self.attention(x)
        h = self.norm1(attended + x)
        fedforward = self.ff(h)
        return self.norm2(fedforward + x)


if __name__ == "__main__":
    print(TransformerBlock()(torch.randn(2, 6, 48)).shape)
