import torch
import torch.nn as nn


class MultiScaleRetention(nn.Module):
    """Heads forget at different speeds: gamma = 1 - 2^(-5-h)."""

    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.register_buffer("gamma", 1 - 2.0 ** (-5 - torch.arange(num_heads, dtype=torch.float64)))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        state = x.new_zeros(b, self.num_heads, self.head_dim, self.head_dim)
        gamma = self.gamma.to(x)[None, :, None, None]
        ys = []
        for t in range(n):
            state = state * gamma + k[:, :, t, :, None] @ v[:, :, t, None, :]
            ys.append((q[:, :, t, None, :] @ state).squeeze(-2))
        return self.proj(torch.stack(ys, 1).reshape(b, n, c))
