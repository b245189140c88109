import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, k, heads=4, causal=False):
        super().__init__()
        assert k % heads == 0
        self.k, self.heads, self.causal = k, heads, causal
        self.tokeys = nn.Linear(k, k, bias=False)
        self.toqueries = nn.Linear(k, k, bias=False)
        self.tovalues = nn.Linear(k, k, bias=False)
        self.unifyheads = nn.Linear(k, k)

    def forward(self, x):
        b, t, k = x.size()
        h, s = self.heads, k // self.heads
        queries = self.toqueries(x).view(b, t, h, s).transpose(1, 2).reshape(b * h, t, s)
        keys = self.tokeys(x).view(b, t, h, s).transpose(1, 2).reshape(b * h, t, s)
        values = self.tovalues(x).view(b, t, h, s).transpose(1, 2).reshape(b * h, t, s)
        dot = torch.bmm(queries, keys.transpose(1, 2)) / s ** 0.5
        if self.causal:
            # a word should not see the words that follow it
            indices = torch.tril_indices(t, t, offset=-1)
            dot[:, indices[0], indices[1]] = float('-inf')
        dot = torch.softmax(dot, dim=2)
        out = torch.bmm(dot, values).view(b, h, t, s)
        return self.unifyheads(out.transpose(1, 2).reshape(b, t, k))


if __name__ == "__main__":
    print(SelfAttention(32, causal=True)(torch.randn(2, 6, 32)).shape)
