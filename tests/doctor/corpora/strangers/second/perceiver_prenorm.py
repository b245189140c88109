import torch
from torch import nn


class PreNormBlock(nn.Module):
    """x = x + MHA(LN(x)); x = x + FFN(LN(x))"""

    def __init__(self, dim, heads, ff_mult=2, dropout=0.0):
        super().__init__()
        self.ln_attn = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.ln_ff = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, dim * ff_mult), nn.GELU(), nn.Linear(dim * ff_mult, dim))

    def forward(self, x, key_padding_mask=None):
        x = x + self.attn(self.ln_attn(x), x, x, key_padding_mask=key_padding_mask, need_weights=False)[0]
        return x + self.ff(self.ln_ff(x))


if __name__ == "__main__":
    print(PreNormBlock(40, 5)(torch.randn(2, 9, 40)).shape)
