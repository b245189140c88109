import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q = nn.Linear(embed_dim, embed_dim)
        self.k = nn.Linear(embed_dim, embed_dim)
        self.v = nn.Linear(embed_dim, embed_dim)
        self.o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, y, mask=None):
        """x attends to y; mask (batch, len_y) is True for tokens and False for padding"""

        def heads(t):
            return t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(y)), heads(self.v(y))
        scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        return self.o((F.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))


class DecoderBlock(nn.Module):
    def __init__(self, embed_dim, num_heads, ff_dim):
        super().__init__()
        self.self_attention = Attention(embed_dim, num_heads)
        self.encoder_attention = Attention(embed_dim, num_heads)
        self.ff = nn.Sequential(nn.Linear(embed_dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, embed_dim))
        self.ln1 = nn.LayerNorm(embed_dim)
        self.ln2 = nn.LayerNorm(embed_dim)
        self.ln3 = nn.LayerNorm(embed_dim)

    def forward(self, x, memory, trg_mask=None, src_mask=None):
        """
        x: (batch, trg_len, embed_dim), memory: (batch, src_len, embed_dim)
        trg_mask: (batch, trg_len), src_mask: (batch, src_len), both True for tokens
        """
        x = x + self.self_attention(self.ln1(x), self.ln1(x), trg_mask)
        x = x + self.encoder_attention(self.ln2(x), memory, trg_mask)
        return x + self.ff(self.ln3(x))


if __name__ == "__main__":
    block = DecoderBlock(32, 4, 64)
    print(block(torch.randn(2, 5, 32), torch.randn(2, 7, 32)).shape)
