"""
T5 attention. Note that there is *no* 1/sqrt(d): the paper (and mesh tensorflow) fold it into the
initialisation of the query projection.
"""

import math

import torch
import torch.nn as nn


def relative_position_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    ret = 0
    n = -relative_position
    if bidirectional:
        num_buckets //= 2
        ret += (n < 0).to(torch.long) * num_buckets
        n = torch.abs(n)
    else:
        n = torch.max(n, torch.zeros_like(n))
    max_exact = num_buckets // 2
    is_small = n < max_exact
    val_if_large = max_exact + (
        torch.log(n.float().clamp(min=1) / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    ).to(torch.long)
    val_if_large = torch.min(val_if_large, torch.full_like(val_if_large, num_buckets - 1))
    return ret + torch.where(is_small, n, val_if_large)


class T5SelfAttention(nn.Module):
    def __init__(self, d_model, d_kv, num_heads, num_buckets=32, dropout=0.0):
        super().__init__()
        self.n_heads, self.d_kv = num_heads, d_kv
        inner = num_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.num_buckets = num_buckets
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)
        self.dropout = dropout
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model**-0.5)
        nn.init.normal_(self.v.weight, std=d_model**-0.5)
        nn.init.normal_(self.o.weight, std=inner**-0.5)

    def compute_bias(self, qlen, klen):
        rel = torch.arange(klen)[None, :] - torch.arange(qlen)[:, None]
        buckets = relative_position_bucket(rel, num_buckets=self.num_buckets)
        return self.relative_attention_bias(buckets.to(self.q.weight.device)).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x, mask=None):
        bs, n, _ = x.shape
        q, k, v = (f(x).view(bs, n, self.n_heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.einsum("bnqd,bnkd->bnqk", q, k)
        scores = scores + self.compute_bias(n, n)
        if mask is not None:
            scores = scores + (1.0 - mask.to(scores.dtype)) * torch.finfo(scores.dtype).min
        weights = nn.functional.dropout(scores.softmax(-1), p=self.dropout, training=self.training)
        context = (weights @ v).transpose(1, 2).contiguous().view(bs, n, -1)
        return self.o(context)
