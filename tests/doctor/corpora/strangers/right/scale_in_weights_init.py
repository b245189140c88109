import torch
import torch.nn as nn
import torch.nn.functional as F


class PreScaledAttention(nn.Module):
    def __init__(self, dim: int, heads: int, causal: bool = True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q_scale = (dim // heads) ** -0.5
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        B, T, D = x.shape
        q = self.wq(x).mul(self.q_scale).view(B, T, self.heads, -1).transpose(1, 2)
        k = self.wk(x).view(B, T, self.heads, -1).transpose(1, 2)
        v = self.wv(x).view(B, T, self.heads, -1).transpose(1, 2)
        # q is already scaled, so SDPA must not do it again
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=1.0)
        return self.wo(y.transpose(1, 2).contiguous().view(B, T, D))
