"""Extractive summariser: sentence vectors attend to each other."""
import math
import torch
from torch import nn


class SentenceAttention(nn.Module):
    def __init__(self, dim, heads=4, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.dim = dim
        self.fc = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sents):
        b, n, _ = sents.shape
        h = sents.view(b, n, self.heads, -1).permute(0, 2, 1, 3)
        att = torch.matmul(h, h.transpose(2, 3)) / math.sqrt(h.size(-1))
        att = self.dropout(att.softmax(dim=-1))
        ctx = torch.matmul(att, h).permute(0, 2, 1, 3).reshape(b, n, self.dim)
        return self.fc(ctx)


class SummaryEncoder(nn.Module):
    def __init__(self, dim=60, heads=4):
        super().__init__()
        self.attn = SentenceAttention(dim, heads)
        self.norm1 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.norm2 = nn.LayerNorm(dim)
        self.score = nn.Linear(dim, 1)

    def forward(self, sents):
        x = self.norm1(sents + self.attn(sents))
        x = self.norm2(x + self.ff(x))
        return self.score(x).squeeze(-1)


if __name__ == "__main__":
    print(SummaryEncoder()(torch.randn(2, 9, 60)).shape)
