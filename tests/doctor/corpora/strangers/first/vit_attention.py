import torch
from torch import nn


class Attention(nn.Module):
    """Multi-head self attention over image patches."""

    def __init__(self, dim, num_heads=8, qkv_bias=False, attn_drop=0., proj_drop=0.):
        super().__init__()
        self.num_heads = num_heads
        head_dim = dim // num_heads
        self.scale = head_dim ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = q @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        attn = self.attn_drop(attn)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class PatchEmbed(nn.Module):
    def __init__(self, patch=4, dim=64):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)

    def forward(self, img):
        return self.proj(img).flatten(2).transpose(1, 2)


if __name__ == "__main__":
    img = torch.randn(2, 3, 16, 16)
    tokens = PatchEmbed()(img)
    print(Attention(64, num_heads=4)(tokens).shape)  # (2, 16, 64)
