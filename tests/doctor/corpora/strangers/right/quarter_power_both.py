import torch
from torch import nn


def attend(q, k, v, causal=False):
    d = q.shape[-1]
    # dividing both by the 4th root = dividing the dot product by sqrt(d), better for half precision
    q = q / d ** 0.25
    k = k / d ** 0.25
    dot = torch.bmm(q, k.transpose(1, 2))
    if causal:
        n, m = dot.shape[-2:]
        future = torch.ones(n, m, dtype=torch.bool, device=q.device).triu(1 + m - n)
        dot = dot.masked_fill(future, float('-inf'))
    return torch.bmm(dot.softmax(dim=2), v)


class SelfAttn(nn.Module):
    def __init__(self, emb, heads=8, mask=False):
        super().__init__()
        self.emb, self.heads, self.mask = emb, heads, mask
        self.tokeys = nn.Linear(emb, emb, bias=False)
        self.toqueries = nn.Linear(emb, emb, bias=False)
        self.tovalues = nn.Linear(emb, emb, bias=False)
        self.unifyheads = nn.Linear(emb, emb)

    def forward(self, x):
        b, t, e = x.size()
        h, s = self.heads, e // self.heads
        keys = self.tokeys(x).view(b, t, h, s)
        queries = self.toqueries(x).view(b, t, h, s)
        values = self.tovalues(x).view(b, t, h, s)
        # fold heads into the batch dimension
        keys = keys.transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries.transpose(1, 2).contiguous().view(b * h, t, s)
        values = values.transpose(1, 2).contiguous().view(b * h, t, s)
        out = attend(queries, keys, values, self.mask).view(b, h, t, s)
        out = out.transpose(1, 2).contiguous().view(b, t, s * h)
        return self.unifyheads(out)
