import torch
from torch import nn


def window_attention_mask(n, w, n_global=1):
    """True = may attend. |i-j| <= w, plus global rows and columns"""
    idx = torch.arange(n)
    m = (idx[:, None] - idx[None, :]).abs() <= w
    m[:n_global, :] = True
    m[:, :n_global] = True
    return m


class LongformerLike(nn.Module):
    def __init__(self, d=30, heads=5, w=2, n_global=1):
        super().__init__()
        self.heads, self.w, self.n_global = heads, w, n_global
        self.query, self.key, self.value, self.proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, attention_mask=None):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, d // self.heads).permute(0, 2, 1, 3)
                   for f in (self.query, self.key, self.value))
        s = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        allow = window_attention_mask(n, self.w, self.n_global).to(x.device)
        if attention_mask is not None:
            allow = allow & attention_mask[:, None, None, :].bool()
        s = s.masked_fill(~allow, float('-inf'))
        return self.proj((s.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(b, n, d))
