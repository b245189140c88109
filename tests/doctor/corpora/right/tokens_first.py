"""Layers that take tokens first, each telling it in its own way: by a call of the file, by a comment, by a switch."""

import torch
from torch import nn


class Tower(nn.Module):
    """One layer of a tower; who calls it has swapped the axes."""

    def __init__(self, width, heads):
        super().__init__()
        self.mix = nn.MultiheadAttention(width, heads)
        self.before = nn.LayerNorm(width)

    def forward(self, x):
        y = self.before(x)
        return x + self.mix(y, y, y, need_weights=False)[0]


class Text(nn.Module):
    def __init__(self, vocab=40, width=16, heads=2):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.tower = Tower(width, heads)

    def forward(self, ids):
        return self.tower(self.words(ids).permute(1, 0, 2)).permute(1, 0, 2)


class Pixels(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads)
        self.norm = nn.LayerNorm(width)

    def forward(self, image, pos=None):
        # image is HW x B x C
        where = image if pos is None else image + pos
        return self.norm(image + self.attn(where, where, value=image)[0])


class Frames(nn.Module):
    """(S, N, E), S frames of N films"""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads)
        self.norm = nn.LayerNorm(width)

    def forward(self, src):
        return self.norm(src + self.attn(src, src, src)[0])


class Either(nn.Module):
    """(T, B, C) as torch has it, (B, T, C) if batch_first"""

    def __init__(self, width, heads, batch_first=False):
        super().__init__()
        self.heads, self.batch_first = heads, batch_first
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        if not self.batch_first:
            x = x.transpose(0, 1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).softmax(-1)
        y = self.out((weights @ v).transpose(1, 2).flatten(2))
        return y if self.batch_first else y.transpose(0, 1)


if __name__ == "__main__":
    print(Text()(torch.randint(0, 40, (3, 8))).shape)
