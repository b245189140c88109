import torch
import torch.nn as nn


class PreNormBlock(nn.Module):
    """ViT encoder block with layer norm in front of attention and MLP."""

    def __init__(self, embed_dim, num_heads, mlp_dim, dropout=0.0):
        super().__init__()
        self.layer_norm_1 = nn.LayerNorm(embed_dim)
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout, batch_first=True)
        self.layer_norm_2 = nn.LayerNorm(embed_dim)
        self.mlp = nn.Sequential(nn.Linear(embed_dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, embed_dim))

    def forward(self, x):
        x = x + self.attn(self.layer_norm_1(x), x, x)[0]
        x = x + self.mlp(self.layer_norm_2(x))
        return x


if __name__ == "__main__":
    print(PreNormBlock(64, 4, 128)(torch.randn(2, 10, 64)).shape)
