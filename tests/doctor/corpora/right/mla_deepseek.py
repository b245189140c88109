"""Multi-head latent attention (DeepSeek-V2), training form."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def rope(x, base=10000.0):
    n, d = x.shape[-2:]
    t = torch.arange(n, device=x.device, dtype=torch.float64)
    f = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / d)
    c = torch.polar(torch.ones(n, d // 2, dtype=torch.float64, device=x.device), torch.outer(t, f))
    z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], d // 2, 2))
    return torch.view_as_real(z * c).flatten(-2).to(x.dtype)


class MLA(nn.Module):
    def __init__(self, dim, n_heads, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=6):
        super().__init__()
        self.n_heads = n_heads
        self.nope, self.rope_dim, self.v_dim, self.rank = (
            qk_nope_head_dim,
            qk_rope_head_dim,
            v_head_dim,
            kv_lora_rank,
        )
        self.wq = nn.Linear(dim, n_heads * (self.nope + self.rope_dim), bias=False)
        self.wkv_a = nn.Linear(dim, self.rank + self.rope_dim, bias=False)
        self.kv_norm = nn.RMSNorm(self.rank, eps=1e-6)
        self.wkv_b = nn.Linear(self.rank, n_heads * (self.nope + self.v_dim), bias=False)
        self.wo = nn.Linear(n_heads * self.v_dim, dim, bias=False)
        self.softmax_scale = (self.nope + self.rope_dim) ** -0.5

    def forward(self, x):
        b, n, _ = x.shape
        q = self.wq(x).view(b, n, self.n_heads, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rope_dim], dim=-1)
        kv, k_pe = self.wkv_a(x).split([self.rank, self.rope_dim], dim=-1)
        k_pe = rope(k_pe.unsqueeze(1))  # one rotary key for all heads
        q = torch.cat([q_nope, rope(q_pe)], dim=-1)
        kv = self.wkv_b(self.kv_norm(kv)).view(b, n, self.n_heads, -1).transpose(1, 2)
        k_nope, v = kv.split([self.nope, self.v_dim], dim=-1)
        k = torch.cat([k_nope, k_pe.expand(-1, self.n_heads, -1, -1)], dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.softmax_scale)
        return self.wo(y.transpose(1, 2).flatten(2))
