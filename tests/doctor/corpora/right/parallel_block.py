import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(dim=256, heads=8, ff_mult=4, rotary_dim=16, max_len=512)


def rotate_every_two(x):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((-b, a), -1).reshape(x.shape)


class ParallelBlock(nn.Module):
    """x + attn(ln(x)) + mlp(ln(x)) with one norm, like GPT-J / PaLM. Rotary on the first dims of each head only."""

    def __init__(self, dim, heads, rotary_dim=4, max_len=512, ff_mult=4):
        super().__init__()
        self.heads, self.rotary_dim = heads, rotary_dim
        self.ln = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.fc_in = nn.Linear(dim, ff_mult * dim)
        self.fc_out = nn.Linear(ff_mult * dim, dim)
        f = 1.0 / (10000 ** (torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim))
        ang = torch.arange(max_len, dtype=torch.float64)[:, None] * f[None]
        self.register_buffer("cos", ang.cos().repeat_interleave(2, 1), persistent=False)
        self.register_buffer("sin", ang.sin().repeat_interleave(2, 1), persistent=False)

    def rope(self, t):
        n = t.shape[-2]
        rot, rest = t[..., : self.rotary_dim], t[..., self.rotary_dim :]
        c, s = self.cos[:n].to(t.dtype), self.sin[:n].to(t.dtype)
        return torch.cat((rot * c + rotate_every_two(rot) * s, rest), dim=-1)

    def forward(self, x):
        B, N, D = x.shape
        h = self.ln(x)
        q, k, v = (t.view(B, N, self.heads, -1).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        a = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        a = self.out(a.transpose(1, 2).reshape(B, N, D))
        m = self.fc_out(F.gelu(self.fc_in(h)))
        return x + a + m
