import torch
from torch import nn


class MaskedViTAttention(nn.Module):
    """ViT attention where some patches of smaller images are only filling (valid=False)."""

    def __init__(self, dim, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, valid=None):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        if valid is not None:
            attn = attn.masked_fill(~valid[:, None, :, None], -1e9)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


layer = MaskedViTAttention(32)
valid = torch.ones(2, 9, dtype=torch.bool)
valid[1, 6:] = False
print(layer(torch.randn(2, 9, 32), valid).shape)
