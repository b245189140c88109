"""A Llama in one file: rotary positions as complex numbers, grouped keys, a cache that is filled from start_pos on."""

from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 512
    n_layers: int = 8
    n_heads: int = 8
    n_kv_heads: Optional[int] = None
    vocab_size: int = 32000
    multiple_of: int = 32
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_batch_size: int = 4
    max_seq_len: int = 256


def precompute_freqs_cis(dim, end, theta=10000.0):
    """e^(i t w) for t < end and every pair of a head, complex64 (end, dim / 2)"""
    w = theta ** -(torch.arange(dim // 2) * 2 / dim)
    return torch.exp(1j * torch.arange(end)[:, None] * w[None, :])


def apply_rotary_emb(xq, xk, freqs_cis):
    # (b, n, heads, d) seen as d / 2 complex numbers, times (n, 1, d / 2)
    def turn(t):
        pairs = torch.view_as_complex((t if t.dtype == torch.float64 else t.float()).unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * freqs_cis[:, None, :]).flatten(-2).to(t.dtype)

    return turn(xq), turn(xk)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.h, self.kv = args.n_heads, args.n_kv_heads or args.n_heads
        self.d = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, self.h * self.d, bias=False)
        self.wk = nn.Linear(args.dim, self.kv * self.d, bias=False)
        self.wv = nn.Linear(args.dim, self.kv * self.d, bias=False)
        self.wo = nn.Linear(self.h * self.d, args.dim, bias=False)
        # not buffers: they are moved along by hand below
        self.cache_k = torch.zeros(args.max_batch_size, args.max_seq_len, self.kv, self.d)
        self.cache_v = torch.zeros_like(self.cache_k)

    def remember(self, k, v, start):
        b, end = k.shape[0], start + k.shape[1]
        self.cache_k, self.cache_v = self.cache_k.to(k), self.cache_v.to(v)
        self.cache_k[:b, start:end] = k
        self.cache_v[:b, start:end] = v
        return self.cache_k[:b, :end], self.cache_v[:b, :end]

    def forward(self, x: torch.Tensor, start_pos: int, freqs_cis: torch.Tensor, mask: Optional[torch.Tensor]):
        q = self.wq(x).unflatten(-1, (self.h, self.d))
        k = self.wk(x).unflatten(-1, (self.kv, self.d))
        v = self.wv(x).unflatten(-1, (self.kv, self.d))
        q, k = apply_rotary_emb(q, k, freqs_cis)
        k, v = self.remember(k, v, start_pos)
        k, v = (t.repeat_interleave(self.h // self.kv, dim=2) for t in (k, v))
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) / self.d**0.5
        if mask is not None:
            s = s + mask
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, args):
        super().__init__()
        hidden = -(-8 * args.dim // 3 // args.multiple_of) * args.multiple_of
        self.w1 = nn.Linear(args.dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self, layer_id: int, args: ModelArgs):
        super().__init__()
        self.layer_id = layer_id
        self.attention = Attention(args)
        self.feed_forward = FeedForward(args)
        self.attention_norm = RMSNorm(args.dim, args.norm_eps)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps)

    def forward(self, x, start_pos, freqs_cis, mask):
        x = x + self.attention(self.attention_norm(x), start_pos, freqs_cis, mask)
        return x + self.feed_forward(self.ffn_norm(x))


class Transformer(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleList(TransformerBlock(i, args) for i in range(args.n_layers))
        self.norm = RMSNorm(args.dim, args.norm_eps)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
        self.freqs = precompute_freqs_cis(args.dim // args.n_heads, args.max_seq_len, args.rope_theta)

    @torch.no_grad()
    def forward(self, tokens, start_pos=0):
        n = tokens.shape[1]
        x = self.tok_embeddings(tokens)
        # row i stands at start_pos + i and sees every key up to there
        mask = torch.zeros(n, start_pos + n, dtype=x.dtype)
        mask.masked_fill_(torch.ones_like(mask, dtype=torch.bool).triu(start_pos + 1), float("-inf"))
        for layer in self.layers:
            x = layer(x, start_pos, self.freqs[start_pos : start_pos + n], mask)
        return self.output(self.norm(x))
