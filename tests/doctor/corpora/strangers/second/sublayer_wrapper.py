"""Encoder layer with a generic pre-norm residual wrapper."""
import math
import torch
import torch.nn as nn


class PreNormResidual(nn.Module):
    def __init__(self, size, fn, p=0.1):
        super().__init__()
        self.norm, self.fn, self.drop = nn.LayerNorm(size), fn, nn.Dropout(p)

    def forward(self, x, *args):
        return x + self.drop(self.fn(self.norm(x), *args))


class MHA(nn.Module):
    def __init__(self, size, h):
        super().__init__()
        self.h, self.dk = h, size // h
        self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))

    def forward(self, query, key, value):
        b = query.size(0)
        q, k, v = (f(t).view(b, -1, self.h, self.dk).transpose(1, 2)
                   for f, t in ((self.q, query), (self.k, key), (self.v, value)))
        p = (q @ k.transpose(-1, -2) / math.sqrt(self.dk)).softmax(-1)
        return self.o((p @ v).transpose(1, 2).reshape(b, -1, self.h * self.dk))


class EncoderLayer(nn.Module):
    def __init__(self, size=32, h=4, ff=64):
        super().__init__()
        self.attn = PreNormResidual(size, MHA(size, h))
        self.ff = PreNormResidual(size, nn.Sequential(nn.Linear(size, ff), nn.ReLU(), nn.Linear(ff, size)))

    def forward(self, x):
        x = self.attn(x, x, x)
        return self.ff(x)


if __name__ == "__main__":
    print(EncoderLayer()(torch.randn(2, 6, 32)).shape)
