import copy
import math

import torch
from torch import nn


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


class SelfAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.d_k = d_model // h
        self.h = h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        for lin in self.linears:
            nn.init.xavier_uniform_(lin.weight)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q = self.linears[0](x).view(b, n, self.h, self.d_k).transpose(1, 2)
        k = self.linears[0](x).view(b, n, self.h, self.d_k).transpose(1, 2)
        v = self.linears[2](x).view(b, n, self.h, self.d_k).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:  # (b, 1, 1, n), 1 = keep
            scores = scores.masked_fill(mask == 0, -1e9)
        p = scores.softmax(dim=-1)
        return self.linears[3]((p @ v).transpose(1, 2).contiguous().view(b, n, d)), p


if __name__ == "__main__":
    print(SelfAttention(32, 4)(torch.randn(2, 6, 32))[0].shape)
