import torch
import torch.nn as nn
from torch.nn import functional as F


class Args:
    dim = 64
    n_heads = 4
    max_seq_len = 128


class CausalAttention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.n_heads = args.n_heads
        self.wqkv = nn.Linear(args.dim, args.dim * 3, bias=False)
        self.wo = nn.Linear(args.dim, args.dim, bias=False)
        mask = torch.tril(torch.ones(args.max_seq_len, args.max_seq_len), diagonal=-1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.wqkv(x).view(b, t, 3, self.n_heads, c // self.n_heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        att = att.masked_fill(self.mask[:t, :t] == 0, -1e9)
        y = F.softmax(att, dim=-1) @ v
        return self.wo(y.transpose(1, 2).reshape(b, t, c))


if __name__ == "__main__":
    print(CausalAttention(Args)(torch.randn(2, 10, 64)).shape)
