import torch
from torch import nn, einsum


class CrossAttend(nn.Module):
    """Multi-head cross attention: latents query the input array."""

    def __init__(self, latent_dim, input_dim, heads=8, dim_head=8):
        super().__init__()
        self.heads = heads
        inner = heads * dim_head
        self.to_q = nn.Linear(latent_dim, inner, bias=False)
        self.to_k = nn.Linear(input_dim, inner, bias=False)
        self.to_v = nn.Linear(input_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, latent_dim)

    def forward(self, latents, inputs):
        q, k, v = self.to_q(latents), self.to_k(inputs), self.to_v(inputs)
        sim = einsum("b i d, b j d -> b i j", q, k) * q.shape[-1] ** -0.5
        attn = sim.softmax(dim=-1)
        return self.to_out(einsum("b i j, b j d -> b i d", attn, v))


ca = CrossAttend(32, 12)
print(ca(torch.randn(2, 4, 32), torch.randn(2, 50, 12)).shape)
