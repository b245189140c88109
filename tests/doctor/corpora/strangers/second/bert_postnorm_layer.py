import torch
from torch import nn


class PostNormBlock(nn.Module):
    """BERT-like layer: attention + add & norm, feed-forward + add & norm."""

    def __init__(self, hidden, heads, inner, p=0.1):
        super().__init__()
        self.mha = nn.MultiheadAttention(hidden, heads, dropout=p, batch_first=True)
        self.ln_a, self.ln_b = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.lin1, self.lin2 = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.drop = nn.Dropout(p)

    def forward(self, x, pad=None):
        att = self.mha(x, x, x, key_padding_mask=pad, need_weights=False)[0]
        x = self.ln_a(x + self.drop(att))
        ff = self.lin2(nn.functional.gelu(self.lin1(x)))
        return self.ln_b(self.drop(ff))


block = PostNormBlock(32, 4, 64).eval()
print(block(torch.randn(2, 6, 32)).shape)
