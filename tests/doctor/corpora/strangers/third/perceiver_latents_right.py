import torch
from torch import nn


class LatentCrossAttention(nn.Module):
    """A few learned latents read a long input. data: (B, M, data_dim), keep: (B, M) bool, True = real."""

    def __init__(self, n_latents, latent_dim, data_dim, heads=4):
        super().__init__()
        self.heads = heads
        self.latents = nn.Parameter(torch.randn(n_latents, latent_dim) * 0.02)
        self.norm = nn.LayerNorm(data_dim)
        self.q = nn.Linear(latent_dim, latent_dim, bias=False)
        self.k = nn.Linear(data_dim, latent_dim, bias=False)
        self.v = nn.Linear(data_dim, latent_dim, bias=False)
        self.out = nn.Linear(latent_dim, latent_dim)

    def forward(self, data, keep=None):
        B = data.size(0)
        data = self.norm(data)
        latents = self.latents.expand(B, -1, -1)

        def split(t):
            return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.q(latents)), split(self.k(data)), split(self.v(data))
        sim = q @ k.mT * q.size(-1) ** -0.5
        if keep is not None:
            sim = sim.masked_fill(~keep[:, None, None, :], -torch.finfo(sim.dtype).max)
        y = (sim.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)
        return latents + self.out(y)
