import torch
import torch.nn as nn


class WindowAttention(nn.Module):
    """Window based attention. x: (windows*B, N, C); mask: (windows, N, N) tells which pairs belong together."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask[None, :, None]
            attn = attn.view(-1, self.num_heads, N, N)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


def shift_mask(region):
    """region: (windows, N) ids; tokens of different regions must not attend to each other. True = same region"""
    return region[:, :, None] == region[:, None, :]


if __name__ == "__main__":
    region = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]])
    print(WindowAttention(32, 4)(torch.randn(6, 4, 32), shift_mask(region)).shape)
