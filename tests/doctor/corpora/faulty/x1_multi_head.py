"""Encoder of "Attention is all you need", after reading the paper twice."""

import torch
from torch import nn


def get_scores(q, k):
    return q.matmul(k.transpose(2, 3)).div(k.size(3) ** 0.5)


class MHA(nn.Module):
    def __init__(self, h, d_model, d_k=None, d_v=None):
        super().__init__()
        d_k = d_k or d_model // h
        d_v = d_v or d_model // h
        self.h, self.d_k, self.d_v = h, d_k, d_v
        self.Wq = nn.Linear(d_model, h * d_k, bias=False)
        self.Wk = nn.Linear(d_model, h * d_k, bias=False)
        self.Wv = nn.Linear(d_model, h * d_v, bias=False)
        self.Wo = nn.Linear(h * d_v, d_model, bias=False)

    def forward(self, q, k, v, mask=None):
        """mask: bool, (batch, len_q, len_k), True at positions that must not be attended"""
        B, n, m = q.size(0), q.size(1), k.size(1)
        q = self.Wq(q).view(B, n, self.h, self.d_k).transpose(1, 2)
        k = self.Wk(k).view(B, m, self.h, self.d_k).transpose(1, 2)
        v = self.Wv(v).view(B, m, self.h, self.d_v).transpose(1, 2)
        scores = get_scores(q, k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1), -1e9)
        attn = scores.softmax(dim=-2)
        out = attn.matmul(v).transpose(1, 2).reshape(B, n, self.h * self.d_v)
        return self.Wo(out), attn


class EncoderLayer(nn.Module):
    def __init__(self, h, d_model, d_ff):
        super().__init__()
        self.attn = MHA(h, d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.n1(x + self.attn(x, x, x, mask)[0])
        return self.n2(x + self.ff(x))


if __name__ == "__main__":
    print(EncoderLayer(8, 64, 128)(torch.randn(2, 6, 64)).shape)
