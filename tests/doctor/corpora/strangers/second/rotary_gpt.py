import torch
from torch import nn
import torch.nn.functional as F


class RotaryEmbedding(nn.Module):
    """x: (batch, seq, heads, dim)"""

    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)))

    def forward(self, x):
        t = torch.arange(x.shape[1], device=x.device).type_as(self.inv_freq)
        ang = torch.outer(t, self.inv_freq)
        cos, sin = ang.cos()[None, :, None, :], ang.sin()[None, :, None, :]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class RotaryCausalAttention(nn.Module):
    def __init__(self, d_model=64, n_head=4):
        super().__init__()
        self.n_head, self.hd = n_head, d_model // n_head
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=False)
        self.c_proj = nn.Linear(d_model, d_model, bias=False)
        self.rotary = RotaryEmbedding(self.hd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=-1)
        q = q.view(B, T, self.n_head, self.hd).transpose(1, 2)
        k = k.view(B, T, self.n_head, self.hd).transpose(1, 2)
        v = v.view(B, T, self.n_head, self.hd).transpose(1, 2)
        q, k = self.rotary(q), self.rotary(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


if __name__ == "__main__":
    print(RotaryCausalAttention()(torch.randn(2, 10, 64)).shape)
