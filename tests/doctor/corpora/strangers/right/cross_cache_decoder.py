import torch
from torch import nn


class CrossAttention(nn.Module):
    """keys and values of the encoder are computed once per sentence and kept in `cache`"""

    def __init__(self, d_model=32, d_enc=40, heads=4):
        super().__init__()
        self.heads, self.d_head = heads, d_model // heads
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_enc, d_model)
        self.v = nn.Linear(d_enc, d_model)
        self.out = nn.Linear(d_model, d_model)

    def split(self, t):
        return t.view(t.size(0), t.size(1), self.heads, self.d_head).transpose(1, 2)

    def forward(self, x, memory=None, memory_lengths=None, cache=None):
        if cache is not None and 'k' in cache:
            k, v = cache['k'], cache['v']
        else:
            k, v = self.split(self.k(memory)), self.split(self.v(memory))
            if cache is not None:
                cache['k'], cache['v'] = k, v
        s = self.split(self.q(x)) @ k.transpose(-1, -2) / self.d_head ** 0.5
        if memory_lengths is not None:
            idx = torch.arange(k.size(2), device=x.device)
            s = s.masked_fill((idx >= memory_lengths[:, None])[:, None, None], float('-inf'))
        y = s.softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(2))
