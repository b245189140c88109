import torch
from torch import nn


class LatentCrossAttention(nn.Module):
    """Learned latents read from a byte array. latents (B, L, D), byte_array (B, M, C)"""

    def __init__(self, latent_dim=32, input_dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm_latents = nn.LayerNorm(latent_dim)
        self.norm_inputs = nn.LayerNorm(input_dim)
        self.to_q = nn.Linear(latent_dim, latent_dim, bias=False)
        self.to_k = nn.Linear(input_dim, latent_dim, bias=False)
        self.to_v = nn.Linear(input_dim, latent_dim, bias=False)
        self.to_out = nn.Linear(latent_dim, latent_dim)

    def heads_first(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, latents, byte_array):
        x = self.norm_latents(latents)
        ctx = self.norm_inputs(latents)
        q, k, v = self.heads_first(self.to_q(x)), self.heads_first(self.to_k(ctx)), self.heads_first(self.to_v(ctx))
        w = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
        out = (w @ v).transpose(1, 2).flatten(2)
        return latents + self.to_out(out)


if __name__ == "__main__":
    print(LatentCrossAttention()(torch.randn(2, 6, 32), torch.randn(2, 50, 32)).shape)
