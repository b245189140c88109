"""Attention whose weights are damped by the distance of the tokens."""
import torch
from torch import nn


class DistanceAttention(nn.Module):
    def __init__(self, dim=32, heads=4, max_len=64):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim) for _ in range(4))
        self.rate = nn.Parameter(torch.full((heads, 1, 1), 0.1))
        i = torch.arange(max_len).float()
        self.register_buffer("dist", (i[:, None] - i[None, :]).abs(), persistent=False)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.heads, self.hd).transpose(1, 2)
                   for f in (self.q_proj, self.k_proj, self.v_proj))
        w = torch.softmax(q @ k.transpose(-1, -2) / self.hd ** 0.5, dim=-1)
        w.mul_(torch.exp(-self.rate * self.dist[:n, :n]))
        w = w / w.sum(-1, keepdim=True)        # rows sum to one again
        return self.o_proj((w @ v).transpose(1, 2).reshape(b, n, c))


if __name__ == "__main__":
    with torch.no_grad():
        print(DistanceAttention()(torch.randn(2, 8, 32)).shape)
