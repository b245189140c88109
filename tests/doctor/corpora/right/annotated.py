# Encoder and decoder layers in the classic layout: four linears in a list, weights kept on self.attn
import copy
import math

import torch
import torch.nn as nn


def clones(module, N):
    "N copies with weights of their own"
    return nn.ModuleList(copy.deepcopy(module) for _ in range(N))


def subsequent_mask(size):
    "Mask out subsequent positions."
    attn_shape = (1, size, size)
    mask = torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8)
    return mask == 0


def attention(query, key, value, mask=None, dropout=None):
    "softmax(QK^T / sqrt(d)) V, and the weights"
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = torch.softmax(scores, dim=-1)
    weights = weights if dropout is None else dropout(weights)
    return weights @ value, weights


class LayerNorm(nn.Module):
    "std with Bessel's correction, eps outside of the root"

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        std, mean = torch.std_mean(x, dim=-1, keepdim=True)
        return self.b_2 + self.a_2 * (x - mean) / (std + self.eps)


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.h, self.d_k = h, d_model // h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.dropout = nn.Dropout(dropout)
        self.attn = None

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)  # the same for all heads
        *project, unite = self.linears
        q, k, v = (
            lin(t).view(t.size(0), t.size(1), self.h, self.d_k).transpose(1, 2)
            for lin, t in zip(project, (query, key, value))
        )
        x, self.attn = attention(q, k, v, mask, self.dropout)
        return unite(x.transpose(1, 2).reshape(query.shape))


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_2(self.dropout(torch.relu(self.w_1(x))))


class SublayerConnection(nn.Module):
    "x + dropout(f(norm(x)))"

    def __init__(self, size, dropout):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderLayer(nn.Module):
    def __init__(self, size, self_attn, feed_forward, dropout):
        super().__init__()
        self.self_attn, self.feed_forward = self_attn, feed_forward
        self.sublayer = clones(SublayerConnection(size, dropout), 2)

    def forward(self, x, mask):
        x = self.sublayer[0](x, lambda y: self.self_attn(y, y, y, mask))
        return self.sublayer[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self, size, self_attn, src_attn, feed_forward, dropout):
        super().__init__()
        self.self_attn, self.src_attn, self.feed_forward = self_attn, src_attn, feed_forward
        self.sublayer = clones(SublayerConnection(size, dropout), 3)

    def forward(self, x, memory, src_mask, tgt_mask):
        steps = (
            lambda y: self.self_attn(y, y, y, tgt_mask),
            lambda y: self.src_attn(y, memory, memory, src_mask),
            self.feed_forward,
        )
        for around, step in zip(self.sublayer, steps):
            x = around(x, step)
        return x


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        angle = torch.arange(max_len)[:, None] * torch.exp(torch.arange(0, d_model, 2) * (-math.log(1e4) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2], pe[0, :, 1::2] = angle.sin(), angle.cos()
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


def make_encoder_layer(d_model=512, d_ff=2048, h=8, dropout=0.1):
    return EncoderLayer(d_model, MultiHeadedAttention(h, d_model), PositionwiseFeedForward(d_model, d_ff), dropout)
