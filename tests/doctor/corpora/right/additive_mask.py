import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def causal_bias(n, dtype=torch.float32):
    """0 where attention is allowed, -inf above the diagonal"""
    return torch.full((n, n), float("-inf"), dtype=dtype).triu(1)


class MHA(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.num_heads = num_heads

    def forward(self, query, key, value, attn_bias=None):
        B, Nq, D = query.shape
        Nk = key.shape[1]
        H = self.num_heads
        q = self.q(query).reshape(B, Nq, H, D // H).swapaxes(1, 2)
        k = self.k(key).reshape(B, Nk, H, D // H).swapaxes(1, 2)
        v = self.v(value).reshape(B, Nk, H, D // H).swapaxes(1, 2)
        logits = q.matmul(k.mT).div(math.sqrt(D // H))
        if attn_bias is not None:
            logits = logits.add(attn_bias)
        return self.o(F.softmax(logits, -1).matmul(v).swapaxes(1, 2).flatten(-2))
