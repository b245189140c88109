import math
import torch
from torch import nn


class CachedSelfAttention(nn.Module):
    def __init__(self, d_model=32, h=4, max_len=50):
        super().__init__()
        self.h, self.d_k, self.max_len = h, d_model // h, max_len
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def shape(self, lin, x):
        return lin(x).view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)

    def empty_cache(self, batch):
        zeros = self.linears[0].weight.new_zeros(batch, self.h, self.max_len, self.d_k)
        return {"k": zeros, "v": zeros.clone(), "len": 0}

    @torch.no_grad()
    def forward(self, x, cache):
        """x: (B, 1, d_model), the newest target token."""
        q = self.shape(self.linears[0], x)
        t = cache["len"]
        cache["k"][:, :, t:t + 1] = self.shape(self.linears[1], x)
        cache["v"][:, :, t:t + 1] = self.shape(self.linears[2], x)
        cache["len"] = t + 1
        # the part of the buffer that is filled
        k = cache["k"][:, :, :cache["len"] + 1]
        v = cache["v"][:, :, :cache["len"] + 1]
        p = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.d_k), dim=-1)
        y = (p @ v).transpose(1, 2).contiguous().view(x.size(0), 1, -1)
        return self.linears[3](y)


layer = CachedSelfAttention()
cache = layer.empty_cache(2)
for token in torch.randn(6, 2, 1, 32):
    y = layer(token, cache)
print(y.shape)
