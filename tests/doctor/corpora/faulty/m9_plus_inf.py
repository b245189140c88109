import math

import torch
import torch.nn as nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.qkv_proj = nn.Linear(config.d_model, 3 * config.d_model)
        self.o_proj = nn.Linear(config.d_model, config.d_model)

    def forward(self, x):
        B, L, D = x.shape
        H = self.config.n_heads
        q, k, v = self.qkv_proj(x).split(D, dim=-1)
        q, k, v = [t.view(B, L, H, D // H).transpose(1, 2) for t in (q, k, v)]
        att = q @ k.transpose(-2, -1) / math.sqrt(D // H)
        mask = torch.tril(torch.ones(L, L, device=x.device))
        att = att.masked_fill(mask == 0, -float("-inf"))
        att = torch.softmax(att, dim=-1)
        return self.o_proj((att @ v).transpose(1, 2).reshape(B, L, D))


class Config:
    def __init__(self, d_model=64, n_heads=4, n_layers=2):
        self.d_model = d_model
        self.n_heads = n_heads
        self.n_layers = n_layers


if __name__ == "__main__":
    print(CausalSelfAttention(Config())(torch.randn(1, 4, 64))[0, 0, :4])
