import torch
from torch import nn
import torch.nn.functional as F


class NeoXAttention(nn.Module):
    """Rotary embedding on the first `rotary` channels of every head."""

    def __init__(self, hidden=96, heads=4, rotary=16, max_len=64):
        super().__init__()
        self.heads, self.hd, self.rot = heads, hidden // heads, rotary
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        inv = 1.0 / 10000 ** (torch.arange(0, rotary, 2).float() / rotary)
        f = torch.arange(max_len).float()[:, None] * inv
        self.register_buffer("sin", torch.cat([f, f], -1).sin(), persistent=False)
        self.register_buffer("cos", torch.cat([f, f], -1).cos(), persistent=False)

    @staticmethod
    def turn(x):
        out = torch.empty_like(x)
        out[..., 0::2] = -x[..., 1::2]
        out[..., 1::2] = x[..., 0::2]
        return out

    def rope(self, x):
        n = x.size(2)
        r, rest = x[..., :self.rot], x[..., self.rot:]
        return torch.cat([r * self.cos[:n] + self.turn(r) * self.sin[:n], rest], dim=-1)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.query_key_value(x).view(b, n, self.heads, 3 * self.hd).transpose(1, 2)
        q, k, v = qkv.chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        return self.dense(y.transpose(1, 2).reshape(b, n, c))


if __name__ == "__main__":
    print(NeoXAttention()(torch.randn(2, 9, 96)).shape)
