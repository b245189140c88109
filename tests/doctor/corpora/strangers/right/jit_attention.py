import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn


class ScriptableAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads: int = heads
        self.head_dim: int = dim // heads
        self.inv_sqrt: float = 1.0 / math.sqrt(self.head_dim)
        self.qp = nn.Linear(dim, dim)
        self.kp = nn.Linear(dim, dim)
        self.vp = nn.Linear(dim, dim)
        self.op = nn.Linear(dim, dim)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, attn_bias: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        b = q.size(0)
        nq = q.size(1)
        nk = k.size(1)
        qh = self.qp(q).view(b, nq, self.heads, self.head_dim).permute(0, 2, 1, 3)
        kh = self.kp(k).view(b, nk, self.heads, self.head_dim).permute(0, 2, 1, 3)
        vh = self.vp(v).view(b, nk, self.heads, self.head_dim).permute(0, 2, 1, 3)
        s = torch.matmul(qh, kh.transpose(2, 3)) * self.inv_sqrt
        if attn_bias is not None:       # added; use 0 / -inf to mask
            s = s + attn_bias
        p = torch.softmax(s, dim=-1)
        o = torch.matmul(p, vh).permute(0, 2, 1, 3).reshape(b, nq, self.heads * self.head_dim)
        return self.op(o), p
