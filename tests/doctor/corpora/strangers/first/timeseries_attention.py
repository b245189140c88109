from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    features: int = 24
    lookback: int = 10
    heads: int = 3


class TemporalAttention(nn.Module):
    """Causal attention over the past `lookback` steps of a multivariate series, (B, T, features)."""

    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        self.qkv = nn.Linear(cfg.features, cfg.features * 3)
        self.out = nn.Linear(cfg.features, cfg.features)
        past = torch.full((cfg.lookback, cfg.lookback), float("-inf")).triu(1)
        self.register_buffer("past_only", past)

    def forward(self, series):
        B, T, F = series.shape
        q, k, v = self.qkv(series).view(B, T, 3, self.cfg.heads, -1).permute(2, 0, 3, 1, 4)
        score = torch.matmul(q, k.mT) / q.shape[-1] ** 0.5
        weight = torch.softmax(score + self.past_only, dim=-1)
        return self.out(torch.matmul(weight, v).transpose(1, 2).reshape(B, T, F))


if __name__ == "__main__":
    print(TemporalAttention(Config())(torch.randn(2, 10, 24)).shape)
