import math

import torch
import torch.nn as nn


def get_slopes(n):
    def get_slopes_power_of_2(n):
        start = (2 ** (-2 ** -(math.log2(n) - 3)))
        ratio = start
        return [start * ratio ** i for i in range(n)]

    if math.log2(n).is_integer():
        return get_slopes_power_of_2(n)
    else:
        closest = 2 ** math.floor(math.log2(n))
        return get_slopes_power_of_2(closest) + get_slopes(2 * closest)[0::2][:n - closest]


class AlibiCausalAttention(nn.Module):
    def __init__(self, d, heads, maxpos=512):
        super().__init__()
        self.heads = heads
        self.hd = d // heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        slopes = torch.tensor(get_slopes(heads))
        pos = torch.arange(maxpos)
        dist = pos[None, :] - pos[:, None]                       # j - i, <= 0 in the past
        alibi = slopes[:, None, None] * dist[None]
        alibi = alibi.masked_fill(dist[None] > 0, float("-inf"))  # future
        self.register_buffer("alibi", alibi, persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (z.view(b, t, self.heads, self.hd).transpose(1, 2) for z in (q, k, v))
        s = q @ k.mT / math.sqrt(self.hd) + self.alibi[:, :t, :t]
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


print(get_slopes(8))
