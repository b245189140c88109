import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden) for _ in range(4))

    def forward(self, h, lengths):
        b, n, c = h.shape
        q, k, v = (w(h).view(b, n, self.heads, -1).transpose(1, 2) for w in (self.q, self.k, self.v))
        padding = torch.arange(n)[None, None, None] >= lengths[:, None, None, None]
        scores = (q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5).masked_fill(padding, -1e9)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


class Encoder(nn.Module):
    """One layer over words, places and segments."""

    def __init__(self, vocab=50, hidden=24, heads=2, max_len=32):
        super().__init__()
        self.word, self.place, self.segment = (
            nn.Embedding(vocab, hidden),
            nn.Embedding(max_len, hidden),
            nn.Embedding(2, hidden),
        )
        self.attn, self.norm = Attention(hidden, heads), nn.LayerNorm(hidden)

    def forward(self, ids, segments, lengths):
        h = self.word(ids) + self.place(torch.arange(ids.size(1))) + self.segment(segments)
        return self.norm(h + self.attn(h, lengths))
