import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 48
    n_heads: int = 6
    causal: bool = True


class MusicDecoderLayer(nn.Module):
    """Predicts the next note from the notes so far. x: (B, T, dim)"""

    def __init__(self, args: ModelArgs):
        super().__init__()
        self.args = args
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.dim, bias=False)
        self.wk = nn.Linear(args.dim, args.dim, bias=False)
        self.wv = nn.Linear(args.dim, args.dim, bias=False)
        self.wo = nn.Linear(args.dim, args.dim, bias=False)
        self.norm = nn.LayerNorm(args.dim)

    def forward(self, x):
        B, T, _ = x.shape
        h = self.norm(x)
        q, k, v = (w(h).view(B, T, self.args.n_heads, self.head_dim).transpose(1, 2)
                   for w in (self.wq, self.wk, self.wv))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head_dim)
        probs = scores.softmax(dim=-1)
        out = (probs @ v).transpose(1, 2).reshape(B, T, -1)
        return x + self.wo(out)


if __name__ == "__main__":
    notes = torch.randn(2, 16, 48)
    print(MusicDecoderLayer(ModelArgs())(notes).shape)
