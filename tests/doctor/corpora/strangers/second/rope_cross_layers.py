import torch
import torch.nn as nn
import torch.nn.functional as F


class RopeBlock(nn.Module):
    def __init__(self, dim=64, heads=4, max_len=128, base=10_000.0):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        freqs = base ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        theta = torch.arange(max_len).float().outer(freqs)
        self.register_buffer("theta", torch.cat((theta, theta), dim=-1), persistent=False)

    def rotary(self, t):
        theta = self.theta[:t.size(1)].unsqueeze(1)
        a, b = t.chunk(2, dim=-1)
        return t * theta.cos() + torch.cat((-b, a), dim=-1) * theta.sin()

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norm2(x))


if __name__ == "__main__":
    print(RopeBlock()(torch.randn(2, 9, 64)).shape)
