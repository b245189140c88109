import torch
import torch.nn as nn
import torch.nn.functional as F


def sliding_window_mask(n, window):
    """token i may look at i - window + 1 .. i, that is `window` tokens with itself"""
    i = torch.arange(n)
    dist = i[:, None] - i[None, :]
    return (dist >= 0) & (dist < window)


class SlidingWindowAttention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, window_size=4):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.window_size = n_heads, n_kv_heads, window_size
        self.head_dim = dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.n_kv_heads, self.head_dim).transpose(1, 2)
        rep = self.n_heads // self.n_kv_heads
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)
        mask = sliding_window_mask(n, self.window_size).to(x.device)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, -1))


class LocalAttention(nn.Module):
    """both sides, encoder style: |i - j| <= radius"""

    def __init__(self, dim, num_heads, radius=2):
        super().__init__()
        self.h, self.radius = num_heads, radius
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        pos = torch.arange(N, device=x.device)
        far = (pos[None] - pos[:, None]).abs() > self.radius
        w = (q @ k.transpose(-1, -2) * (D // self.h) ** -0.5).masked_fill(far, -torch.inf).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(B, N, D))
