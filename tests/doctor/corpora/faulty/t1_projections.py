import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    """Builds its projections from the size of what comes in, so that no dimension has to be given."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads

    def forward(self, x, mask=None):
        batch, length, dim = x.shape
        to_query = nn.Linear(dim, dim, bias=False)
        to_key = nn.Linear(dim, dim, bias=False)
        to_value = nn.Linear(dim, dim, bias=False)
        unify = nn.Linear(dim, dim)

        q = to_query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        k = to_key(x).view(batch, length, self.heads, -1).transpose(1, 2)
        v = to_value(x).view(batch, length, self.heads, -1).transpose(1, 2)
        scores = q @ k.transpose(2, 3) / math.sqrt(dim // self.heads)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = torch.softmax(scores, dim=-1) @ v
        return unify(out.transpose(1, 2).reshape(batch, length, dim))


if __name__ == "__main__":
    print(SelfAttention()(torch.randn(2, 6, 32)).shape)
