import torch
import torch.nn as nn


class OneWay(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.kv = nn.Linear(dim, 2 * dim)
        self.q = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, y, x_mask=None):
        """x: memory (keys, values), y: queries, x_mask: True where x is real"""
        B, M, D = x.shape
        N = y.shape[1]
        k, v = self.kv(x).view(B, M, 2, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        q = self.q(y).view(B, N, self.heads, D // self.heads).transpose(1, 2)
        att = q @ k.transpose(-1, -2) * (D // self.heads) ** -0.5
        if x_mask is not None:
            att = att.masked_fill(~x_mask[:, None, None], -1e30)
        return self.out((att.softmax(-1) @ v).transpose(1, 2).reshape(B, N, D))


class CoAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.a_from_b = OneWay(dim, heads)
        self.b_from_a = OneWay(dim, heads)
        self.na, self.nb = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, a, b, a_mask=None, b_mask=None):
        na, nb = self.na(a), self.nb(b)
        return a + self.a_from_b(nb, na, b_mask), b + self.b_from_a(na, nb, a_mask)
