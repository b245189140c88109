import torch
import torch.nn as nn


class EncoderBlock(nn.Module):
    """Post-norm: LayerNorm(x + sublayer(x)) twice"""

    def __init__(self, embed_dim, num_heads, ff_dim, dropout=0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout, batch_first=True)
        self.norm1 = nn.LayerNorm(embed_dim)
        self.feed_forward = nn.Sequential(nn.Linear(embed_dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, embed_dim))
        self.norm2 = nn.LayerNorm(embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        attended, _ = self.attention(x, x, x)
        out = self.norm1(x + self.dropout(attended))
        forward = self.feed_forward(out)
        return self.norm2(x + self.dropout(forward))


if __name__ == "__main__":
    print(EncoderBlock(64, 4, 128)(torch.randn(2, 5, 64)).shape)
