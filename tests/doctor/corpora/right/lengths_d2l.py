# attention with valid lengths instead of masks; heads are folded into the batch
import math

import torch
from torch import nn


def masked_softmax(scores, valid_lens):
    """scores (B, n, m); valid_lens (B,) or (B, n): how many keys count"""
    if valid_lens is not None:
        limit = valid_lens[:, None, None] if valid_lens.dim() == 1 else valid_lens[:, :, None]
        beyond = torch.arange(scores.shape[-1], device=scores.device) >= limit
        scores = torch.where(beyond, -1e6, scores)
    return scores.softmax(-1)


class DotProductAttention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
        self.attention_weights = masked_softmax(scores, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, dropout, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.attention = DotProductAttention(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(num_hiddens, num_hiddens, bias=bias) for _ in range(4))

    def fold(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2).flatten(0, 1)

    def unfold(self, x):
        return x.unflatten(0, (-1, self.num_heads)).transpose(1, 2).flatten(2)

    def forward(self, queries, keys, values, valid_lens):
        if valid_lens is not None:  # sample 0 for all its heads, then sample 1 ...
            valid_lens = valid_lens.repeat_interleave(self.num_heads, dim=0)
        q, k, v = self.fold(self.W_q(queries)), self.fold(self.W_k(keys)), self.fold(self.W_v(values))
        return self.W_o(self.unfold(self.attention(q, k, v, valid_lens)))


class PositionalEncoding(nn.Module):
    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        steps = torch.arange(max_len, dtype=torch.float32)[:, None]
        angle = steps / 10000 ** (torch.arange(0, num_hiddens, 2) / num_hiddens)
        self.P = torch.zeros(1, max_len, num_hiddens)
        self.P[..., 0::2], self.P[..., 1::2] = angle.sin(), angle.cos()

    def forward(self, X):
        return self.dropout(X + self.P[:, : X.shape[1]].to(X.device))


class AddNorm(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.ln, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)

    def forward(self, x, y):
        return self.ln(x + self.dropout(y))


class TransformerEncoderBlock(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias=False):
        super().__init__()
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias)
        up, down = nn.Linear(num_hiddens, ffn_num_hiddens), nn.Linear(ffn_num_hiddens, num_hiddens)
        self.ffn = nn.Sequential(up, nn.ReLU(), down)
        self.addnorm1, self.addnorm2 = AddNorm(num_hiddens, dropout), AddNorm(num_hiddens, dropout)

    def forward(self, X, valid_lens):
        Y = self.addnorm1(X, self.attention(X, X, X, valid_lens))
        return self.addnorm2(Y, self.ffn(Y))


blk = TransformerEncoderBlock(24, 48, 8, 0.5)
print(blk(torch.ones(2, 30, 24), torch.tensor([3, 2])).shape)
