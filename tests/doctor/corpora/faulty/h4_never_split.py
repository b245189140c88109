import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.q = nn.Linear(embed_dim, embed_dim)
        self.k = nn.Linear(embed_dim, embed_dim)
        self.v = nn.Linear(embed_dim, embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, mask=None):
        q = self.q(query)
        k = self.k(key)
        v = self.v(value)
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.size(-1) ** 0.5
        if mask is not None:
            # (batch, n, m), 0 = hidden
            scores = scores.masked_fill(mask == 0, float("-inf"))
        attn = F.softmax(scores, dim=-1)
        return self.out(torch.matmul(attn, v))


class EncoderBlock(nn.Module):
    def __init__(self, embed_dim=128, num_heads=8, hidden=256):
        super().__init__()
        self.mha = MultiHeadAttention(embed_dim, num_heads)
        self.ln1, self.ln2 = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.ff = nn.Sequential(nn.Linear(embed_dim, hidden), nn.ReLU(), nn.Linear(hidden, embed_dim))

    def forward(self, x, mask=None):
        x = self.ln1(x + self.mha(x, x, x, mask))
        return self.ln2(x + self.ff(x))


if __name__ == "__main__":
    print(EncoderBlock()(torch.randn(2, 5, 128)).shape)
