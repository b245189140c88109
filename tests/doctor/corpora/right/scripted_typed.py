"""TorchScript friendly attention."""

from typing import Final, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ScriptAttention(nn.Module):
    heads: Final[int]
    scale: Final[float]

    def __init__(self, emb_size: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.emb_size = emb_size
        self.heads = num_heads
        self.scale = float(emb_size // num_heads) ** -0.5
        self.keys = nn.Linear(emb_size, emb_size)
        self.queries = nn.Linear(emb_size, emb_size)
        self.values = nn.Linear(emb_size, emb_size)
        self.att_drop = nn.Dropout(dropout)
        self.projection = nn.Linear(emb_size, emb_size)

    def _heads(self, t: Tensor) -> Tensor:
        b, n, _ = t.shape
        return t.view(b, n, self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        queries, keys, values = self._heads(self.queries(x)), self._heads(self.keys(x)), self._heads(self.values(x))
        energy = torch.einsum("bhqd, bhkd -> bhqk", queries, keys)
        if mask is not None:
            fill_value: float = torch.finfo(energy.dtype).min
            energy = energy.masked_fill(~mask, fill_value)
        att = F.softmax(energy * self.scale, dim=-1)
        att = self.att_drop(att)
        out = torch.einsum("bhal, bhlv -> bhav", att, values)
        b, h, n, d = out.shape
        return self.projection(out.permute(0, 2, 1, 3).reshape(b, n, h * d))
