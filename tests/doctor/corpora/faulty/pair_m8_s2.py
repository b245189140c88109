import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    """x (B, N, D), mask (B, N) with ones at words and zeros at padding."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, N, D = x.shape
        q, k, v = self.to_qkv(x).reshape(B, N, 3, self.num_heads, D // self.num_heads).permute(2, 0, 3, 1, 4)
        sim = torch.einsum("bhid,bhjd->bhij", q, k)
        if mask is not None:
            sim = sim * mask[:, None, None, :]
        attn = sim.softmax(dim=-1)
        out = torch.einsum("bhij,bhjd->bihd", attn, v).reshape(B, N, D)
        return self.to_out(out)
