import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.w, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return self.w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def rope(x, pos, theta=10000.0):
    """x (b, n, h, d), pairs (2i, 2i+1)"""
    d = x.shape[-1]
    inv = theta ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = pos.float()[:, None] * inv
    c, s = ang.cos()[:, None].to(x.dtype), ang.sin()[:, None].to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


class MLA(nn.Module):
    def __init__(self, dim=64, n_heads=4, q_rank=24, kv_rank=16, nope=12, rope_dim=8, v_dim=10):
        super().__init__()
        self.h, self.nope, self.rd, self.vd, self.kv_rank = n_heads, nope, rope_dim, v_dim, kv_rank
        self.wq_a = nn.Linear(dim, q_rank, bias=False)
        self.q_norm = RMSNorm(q_rank)
        self.wq_b = nn.Linear(q_rank, n_heads * (nope + rope_dim), bias=False)
        self.wkv_a = nn.Linear(dim, kv_rank + rope_dim, bias=False)
        self.kv_norm = RMSNorm(kv_rank)
        self.wkv_b = nn.Linear(kv_rank, n_heads * (nope + v_dim), bias=False)
        self.wo = nn.Linear(n_heads * v_dim, dim, bias=False)
        self.softmax_scale = (nope + rope_dim) ** -0.5

    def forward(self, x, cache=None):
        b, n, _ = x.shape
        past = 0 if cache is None or "c" not in cache else cache["c"].shape[1]
        pos = torch.arange(past, past + n, device=x.device)
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(b, n, self.h, -1)
        q_nope, q_pe = q.split([self.nope, self.rd], -1)
        q_pe = rope(q_pe, pos)
        c, k_pe = self.wkv_a(x).split([self.kv_rank, self.rd], -1)
        c, k_pe = self.kv_norm(c), rope(k_pe.unsqueeze(2), pos).squeeze(2)
        if cache is not None:  # only the latent and the rotary key are kept
            if "c" in cache:
                c, k_pe = torch.cat([cache["c"], c], 1), torch.cat([cache["pe"], k_pe], 1)
            cache["c"], cache["pe"] = c, k_pe
        k_nope, v = self.wkv_b(c).view(b, past + n, self.h, -1).split([self.nope, self.vd], -1)
        s = torch.einsum("bihd,bjhd->bhij", q_nope, k_nope) + torch.einsum("bihd,bjd->bhij", q_pe, k_pe)
        s = s * self.softmax_scale
        m = torch.full((n, past + n), float("-inf"), device=x.device, dtype=s.dtype).triu(past + 1)
        p = F.softmax(s + m, dim=-1)
        return self.wo(torch.einsum("bhij,bjhd->bihd", p, v).flatten(2))
