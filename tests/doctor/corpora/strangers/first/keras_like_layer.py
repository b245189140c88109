import torch
from torch import nn


class ScaledAttention(nn.Module):
    def __init__(self, units, num_heads, return_attention=False):
        super().__init__()
        self.units, self.num_heads = units, num_heads
        self.return_attention = return_attention
        self.Wq = nn.Linear(units, units)
        self.Wk = nn.Linear(units, units)
        self.Wv = nn.Linear(units, units)
        self.Wo = nn.Linear(units, units)

    def call(self, query, key, value, mask=None):
        def heads(z):
            return z.view(z.size(0), z.size(1), self.num_heads, -1).transpose(1, 2)

        q, k, v = heads(self.Wq(query)), heads(self.Wk(key)), heads(self.Wv(value))
        e = torch.matmul(q, k.transpose(-1, -2)) / (self.units // self.num_heads) ** 0.5
        if mask is not None:
            e = e.masked_fill(mask[:, None, None, :] == 0, -1e9)
        a = torch.softmax(e, dim=-1)
        v = torch.matmul(e, v)
        v = self.Wo(v.transpose(1, 2).reshape(query.shape))
        return (v, a) if self.return_attention else v

    forward = call


if __name__ == "__main__":
    x = torch.randn(2, 6, 32)
    y, a = ScaledAttention(32, 4, return_attention=True)(x, x, x)
    print(y.shape, a.shape)
