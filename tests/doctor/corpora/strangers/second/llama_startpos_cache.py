import math
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 4
    max_batch_size: int = 4
    max_seq_len: int = 64


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads, self.head_dim = args.n_heads, args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.dim, bias=False)
        self.wk = nn.Linear(args.dim, args.dim, bias=False)
        self.wv = nn.Linear(args.dim, args.dim, bias=False)
        self.wo = nn.Linear(args.dim, args.dim, bias=False)
        size = (args.max_batch_size, args.max_seq_len, self.n_heads, self.head_dim)
        self.register_buffer("cache_k", torch.zeros(size), persistent=False)
        self.register_buffer("cache_v", torch.zeros(size), persistent=False)
        mask = torch.full((args.max_seq_len, args.max_seq_len), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    @torch.inference_mode()
    def forward(self, x, start_pos: int = 0):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = (w(x).view(bsz, seqlen, self.n_heads, self.head_dim) for w in (self.wq, self.wk, self.wv))
        self.cache_k[:bsz, start_pos:start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos:start_pos + seqlen] = xv
        keys = self.cache_k[:bsz, :start_pos + seqlen].transpose(1, 2)
        values = self.cache_v[:bsz, :start_pos + seqlen].transpose(1, 2)
        scores = xq.transpose(1, 2) @ keys.transpose(2, 3) / math.sqrt(self.head_dim)
        if seqlen > 1 and start_pos == 0:
            scores = scores + self.mask[:seqlen, :seqlen]
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        return self.wo((scores @ values).transpose(1, 2).reshape(bsz, seqlen, -1))


if __name__ == "__main__":
    attn = Attention(ModelArgs())
    attn(torch.randn(2, 5, 64), 0)
    print(attn(torch.randn(2, 3, 64), 5).shape)
