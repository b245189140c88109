import torch
import torch.nn as nn
import torch.nn.functional as F


class LocalAttention(nn.Module):
    """Causal local attention: token i attends to j with 0 <= i - j < window_size."""

    def __init__(self, dim, heads, window_size):
        super().__init__()
        self.heads = heads
        self.window_size = window_size
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        pos = torch.arange(T, device=x.device)
        dist = pos[None, :] - pos[:, None]
        mask = (dist <= 0) & (dist < self.window_size)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


if __name__ == "__main__":
    print(LocalAttention(32, 4, window_size=4)(torch.randn(2, 12, 32)).shape)
