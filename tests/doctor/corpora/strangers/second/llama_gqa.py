import math
import torch
from torch import nn
import torch.nn.functional as F


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """(bs, n_kv_heads, slen, head_dim) -> (bs, n_kv_heads * n_rep, slen, head_dim)"""
    if n_rep == 1:
        return x
    return x.repeat(1, n_rep, 1, 1)


class Attention(nn.Module):
    def __init__(self, dim=64, n_heads=8, n_kv_heads=4, max_seq_len=128):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.n_rep = n_heads // n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)
        mask = torch.full((max_seq_len, max_seq_len), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim).transpose(1, 2)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim).transpose(1, 2)
        xk, xv = repeat_kv(xk, self.n_rep), repeat_kv(xv, self.n_rep)
        scores = xq @ xk.transpose(2, 3) / math.sqrt(self.head_dim)
        scores = F.softmax(scores + self.mask[:seqlen, :seqlen], dim=-1)
        out = (scores @ xv).transpose(1, 2).reshape(bsz, seqlen, -1)
        return self.wo(out)


if __name__ == "__main__":
    print(Attention()(torch.randn(2, 9, 64)).shape)
