import torch
from torch import nn

class Retention(nn.Module):
    """Retention with rotary positions on q and k."""
    def __init__(self, dim, gamma=0.9):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gamma = gamma
    def forward(self, x):
        n, d = x.shape[1:]
        theta = 10000 ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
        ang = torch.arange(n, dtype=x.dtype)[:, None] * theta
        cos, sin = ang.cos().repeat_interleave(2, -1), ang.sin().repeat_interleave(2, -1)
        rot = lambda t: torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2)
        q, k, v = self.q(x), self.k(x), self.v(x)
        q, k = q * cos + rot(q) * sin, k * cos + rot(k) * sin
        i = torch.arange(n)
        D = torch.tril(self.gamma ** (i[:, None] - i[None, :]).to(x.dtype))
        return (q @ k.transpose(1, 2) * D) @ v
