"""IMDB sentiment with a single attention layer."""
import torch
from torch import nn


class SentimentNet(nn.Module):
    def __init__(self, vocab=1000, dim=32, heads=4, classes=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.attn = nn.MultiheadAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, tokens):
        x = self.embed(tokens)            # (batch, seq, dim)
        a, _ = self.attn(x, x, x)
        x = self.norm(x + a)
        return self.head(x.mean(dim=1))   # mean over the sequence


if __name__ == "__main__":
    net = SentimentNet()
    print(net(torch.randint(0, 1000, (8, 20))).shape)
