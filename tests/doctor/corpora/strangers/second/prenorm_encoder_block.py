import torch
from torch import nn


class EncoderBlock(nn.Module):
    """Pre-norm transformer encoder block."""

    def __init__(self, dim=64, heads=4, mlp_ratio=4, dropout=0.1):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Dropout(dropout), nn.Linear(dim * mlp_ratio, dim)
        )

    def forward(self, x, key_padding_mask=None):
        x = self.norm1(x)
        attn_out, _ = self.attn(x, x, x, key_padding_mask=key_padding_mask, need_weights=False)
        x = x + attn_out
        x = x + self.mlp(self.norm2(x))
        return x


if __name__ == "__main__":
    print(EncoderBlock()(torch.randn(2, 8, 64)).shape)
