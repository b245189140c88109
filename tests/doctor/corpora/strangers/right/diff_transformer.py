import math
import torch
from torch import nn


class DiffAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, depth=1):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2       # two half-width maps per head
        self.scaling = self.head_dim ** -0.5
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.lq1, self.lk1, self.lq2, self.lk2 = (nn.Parameter(torch.randn(self.head_dim) * 0.1) for _ in range(4))
        self.subln = nn.RMSNorm(2 * self.head_dim, eps=1e-5)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q_proj(x).view(b, n, 2 * self.num_heads, self.head_dim).transpose(1, 2) * self.scaling
        k = self.k_proj(x).view(b, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.num_heads, 2 * self.head_dim).transpose(1, 2)
        w = q @ k.transpose(-1, -2)
        w = w + torch.triu(torch.full((n, n), float("-inf"), device=x.device), 1)
        w = w.softmax(-1).view(b, self.num_heads, 2, n, n)
        lam = torch.exp(self.lq1 @ self.lk1) - torch.exp(self.lq2 @ self.lk2) + self.lambda_init
        w = w[:, :, 0] - lam * w[:, :, 1]
        o = self.subln(w @ v) * (1 - self.lambda_init)
        return self.out_proj(o.transpose(1, 2).reshape(b, n, d))
