import torch
import torch.nn as nn


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def rope(x, base=10000.0):
    n, d = x.shape[-2], x.shape[-1]
    inv_freq = 1.0 / (base ** (torch.arange(0, d, 2, device=x.device).float() / d))
    t = torch.arange(n, device=x.device).float()
    freqs = torch.outer(t, inv_freq)
    emb = torch.cat((freqs, freqs), dim=-1)
    return x * emb.cos().to(x.dtype) + rotate_half(x) * emb.sin().to(x.dtype)


class Attention(nn.Module):
    def __init__(self, dim=64, n_heads=8, n_kv_heads=2):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.head_dim = dim // n_heads
        self.scale = self.head_dim ** -0.5
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        xq = self.wq(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        xk = self.wk(x).view(b, n, self.n_kv_heads, self.head_dim).transpose(1, 2)
        xv = self.wv(x).view(b, n, self.n_kv_heads, self.head_dim).transpose(1, 2)
        xq, xk = rope(xq), rope(xk)
        rep = self.n_heads // self.n_kv_heads
        xk = xk.repeat_interleave(rep, dim=1)
        xv = xv.repeat_interleave(rep, dim=1)
        scores = torch.matmul(xq, xk.transpose(2, 3)) / self.scale
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(causal, float("-inf"))
        probs = torch.softmax(scores.float(), dim=-1).type_as(xq)
        out = torch.matmul(probs, xv).transpose(1, 2).reshape(b, n, -1)
        return self.wo(out)
