import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.w


class LlamaBlock(nn.Module):
    def __init__(self, d=64, heads=4, hidden=128):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.ffn_norm = RMSNorm(d), RMSNorm(d)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.w1, self.w3 = nn.Linear(d, hidden, bias=False), nn.Linear(d, hidden, bias=False)
        self.w2 = nn.Linear(hidden, d, bias=False)

    def attention(self, x):
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        z = self.ffn_norm(h)
        return z + self.w2(F.silu(self.w1(z)) * self.w3(z))


if __name__ == "__main__":
    print(LlamaBlock()(torch.randn(1, 9, 64)).shape)
