"""Additive attention (Bahdanau, 2014), the first attention: the score is a small network, not a dot product.

    score(q, k) = w · tanh(W_q·q + W_k·k)

B batch, N queries, M keys, A hidden width.
"""

import torch
from torch import Tensor, nn

from . import masks
from .dispatch import MaskLike
from .heads import check_input


class AdditiveAttention(nn.Module):
    """Attention of decoder states over encoder states by Bahdanau's score; returns output and weights.

    >>> output, weights = AdditiveAttention(6, 8, 5)(torch.randn(2, 3, 6), torch.randn(2, 7, 8))
    >>> output.shape, weights.shape
    (torch.Size([2, 3, 8]), torch.Size([2, 3, 7]))
    """

    def __init__(self, width: int, memory_width: int, hidden: int) -> None:
        super().__init__()
        self.q = nn.Linear(width, hidden, bias=False)
        self.k = nn.Linear(memory_width, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, x: Tensor, memory: Tensor, mask: MaskLike = None) -> tuple[Tensor, Tensor]:
        """Attend from x (B, N, ·) to memory (B, M, ·); return output (B, N, ·) of the memory's width, weights (B, N, M)."""
        check_input("x", x, self.q.in_features)
        check_input("memory", memory, self.k.in_features)
        n, m = x.shape[1], memory.shape[1]
        allowed = masks.resolve(mask).tensor(n, m, batch=x.shape[0], device=x.device)[:, 0]  # (B or 1, N, M)
        scores = self.score(torch.tanh(self.q(x)[:, :, None] + self.k(memory)[:, None]))[..., 0]  # (B, N, M)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1).masked_fill(~allowed, 0.0)
        return weights @ memory, weights
