from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn


@dataclass
class AttentionOutput:
    hidden: Tensor
    weights: Tensor | None = None


class Cache(NamedTuple):
    k: Tensor
    v: Tensor


class DictAttention(nn.Module):
    def __init__(self, model_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query_projection = nn.Linear(model_dim, model_dim)
        self.key_projection = nn.Linear(model_dim, model_dim)
        self.value_projection = nn.Linear(model_dim, model_dim)
        self.output_projection = nn.Linear(model_dim, model_dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        B, N, D = x.shape
        shape = (B, N, self.num_heads, D // self.num_heads)
        q = self.query_projection(x).view(shape).transpose(1, 2)
        k = self.key_projection(x).view(shape).transpose(1, 2)
        v = self.value_projection(x).view(shape).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) * shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(dim=-1)
        out = (weights @ v).transpose(1, 2).reshape(B, N, D)
        return {"output": self.output_projection(out), "attention_weights": weights, "scores": scores}


class DataclassAttention(nn.Module):
    def __init__(self, model_dim: int, num_heads: int) -> None:
        super().__init__()
        self.inner = DictAttention(model_dim, num_heads)

    def forward(self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False) -> AttentionOutput:
        res = self.inner(x, mask)
        return AttentionOutput(res["output"], res["attention_weights"] if need_weights else None)
