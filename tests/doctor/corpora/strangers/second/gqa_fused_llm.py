"""Grouped-query attention with one fused projection."""
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: int = 2


class GroupedQueryAttention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads, self.n_kv = args.n_heads, args.n_kv_heads
        self.hd = args.dim // args.n_heads
        self.wqkv = nn.Linear(args.dim, (self.n_heads + 2 * self.n_kv) * self.hd, bias=False)
        self.wo = nn.Linear(args.dim, args.dim, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.wqkv(x)
        k_start = self.n_heads * self.hd
        v_start = k_start + self.hd
        q = qkv[..., :k_start].view(B, T, self.n_heads, self.hd).transpose(1, 2)
        k = qkv[..., k_start:k_start + self.n_kv * self.hd]
        v = qkv[..., v_start:v_start + self.n_kv * self.hd]
        k = k.reshape(B, T, self.n_kv, self.hd).transpose(1, 2)
        v = v.reshape(B, T, self.n_kv, self.hd).transpose(1, 2)
        rep = self.n_heads // self.n_kv
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


if __name__ == "__main__":
    print(GroupedQueryAttention(ModelArgs())(torch.randn(2, 11, 64)).shape)
