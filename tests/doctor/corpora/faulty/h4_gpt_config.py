import math
from types import SimpleNamespace

import torch
from torch import nn

config = SimpleNamespace(hidden_dim=96, num_heads=6, seq_len=48, dropout=0.0)


class MaskedMultiHeadSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_heads
        self.head_dim = config.hidden_dim // config.num_heads
        self.qkv = nn.Linear(config.hidden_dim, 3 * config.hidden_dim)
        self.out = nn.Linear(config.hidden_dim, config.hidden_dim)
        self.register_buffer("mask", torch.tril(torch.ones(1, config.seq_len, config.seq_len)))

    def forward(self, x):
        _, n, hidden = x.shape
        q, k, v = torch.split(self.qkv(x), hidden, dim=-1)
        att = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(k.shape[-1])
        att = att.masked_fill(self.mask[:, :n, :n] == 0, float("-inf"))
        return self.out(torch.bmm(torch.softmax(att, -1), v))


if __name__ == "__main__":
    print(MaskedMultiHeadSelfAttention(config)(torch.randn(2, 12, 96)).shape)
