import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 4
    max_batch_size: int = 4
    max_seq_len: int = 64
    rope_theta: float = 10000.0


def rotations(head_dim: int, length: int, theta: float = 10000.0):
    """One complex number of size 1 per position and pair of channels."""
    speed = theta ** (-torch.arange(0, head_dim, 2) / head_dim)
    angle = torch.arange(length)[:, None] * speed
    return torch.complex(angle.cos(), angle.sin())


def rotate(x, turn):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turn[:, None, :]).flatten(-2)


class Attention(nn.Module):
    """Causal attention that remembers keys and values; call with start_pos = number of tokens already seen."""

    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads = args.n_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.dim, bias=False)
        self.wk = nn.Linear(args.dim, args.dim, bias=False)
        self.wv = nn.Linear(args.dim, args.dim, bias=False)
        self.wo = nn.Linear(args.dim, args.dim, bias=False)
        self.cache_k = torch.zeros(args.max_batch_size, args.max_seq_len, args.n_heads, self.head_dim)
        self.cache_v = torch.zeros(args.max_batch_size, args.max_seq_len, args.n_heads, self.head_dim)
        self.freqs_cis = rotations(self.head_dim, args.max_seq_len, args.rope_theta)

    def forward(self, x: torch.Tensor, start_pos: int = 0, mask: Optional[torch.Tensor] = None):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_heads, self.head_dim)

        freqs_cis = self.freqs_cis[:seqlen]
        xq = rotate(xq, freqs_cis)
        xk = rotate(xk, freqs_cis)

        self.cache_k = self.cache_k.to(xq)
        self.cache_v = self.cache_v.to(xq)
        self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk.detach()
        self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv.detach()
        keys = torch.cat((self.cache_k[:bsz, :start_pos], xk), dim=1).transpose(1, 2)
        values = torch.cat((self.cache_v[:bsz, :start_pos], xv), dim=1).transpose(1, 2)

        scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        if mask is None:
            mask = torch.full((seqlen, start_pos + seqlen), float("-inf"), device=x.device).triu(start_pos + 1)
        scores = F.softmax(scores + mask, dim=-1)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


if __name__ == "__main__":
    attn = Attention(ModelArgs())
    x = torch.randn(2, 6, 64)
    attn(x[:, :5], 0)
    print(attn(x[:, 5:], 5).shape)
