# text conditioning for a small latent diffusion model
import torch
from torch import nn

from utils.config import load_config


class SelfAttention(nn.Module):
    def __init__(self, n_heads, d_embed, in_proj_bias=True, out_proj_bias=True):
        super().__init__()
        self.n_heads = n_heads
        self.in_proj = nn.Linear(d_embed, 3 * d_embed, bias=in_proj_bias)
        self.out_proj = nn.Linear(d_embed, d_embed, bias=out_proj_bias)

    def forward(self, x, causal_mask=False):
        b, n, d = x.shape
        q, k, v = self.in_proj(x).view(b, n, 3, self.n_heads, d // self.n_heads).transpose(1, 3).unbind(2)
        weight = q @ k.mT
        if causal_mask:
            weight[..., torch.ones(n, n, dtype=torch.bool).triu(1)] = -torch.inf
        weight /= (d // self.n_heads) ** 0.5
        return self.out_proj((weight.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class CrossAttention(nn.Module):
    """x: the picture's tokens, y: the text's, of another width"""

    def __init__(self, n_heads, d_embed, d_cross, in_proj_bias=True, out_proj_bias=True):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_embed, d_embed, bias=in_proj_bias)
        self.k_proj = nn.Linear(d_cross, d_embed, bias=in_proj_bias)
        self.v_proj = nn.Linear(d_cross, d_embed, bias=in_proj_bias)
        self.out_proj = nn.Linear(d_embed, d_embed, bias=out_proj_bias)

    def forward(self, x, y):
        q, k, v = (t.unflatten(2, (self.n_heads, -1)) for t in (self.q_proj(x), self.k_proj(y), self.v_proj(y)))
        weight = torch.einsum("bqhd,bkhd->bhqk", q, k)
        weight /= q.shape[-1] ** 0.5
        return self.out_proj(torch.einsum("bhqk,bkhd->bqhd", weight.softmax(dim=-1), v).flatten(2))


class SpatialSelfAttention(nn.Module):
    """attention over the pixels of a feature map (B, C, H, W), one head, residual inside"""

    def __init__(self, in_channels):
        super().__init__()
        self.norm = nn.GroupNorm(1, in_channels)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(in_channels, in_channels, 1) for _ in range(4))

    def forward(self, x):
        z = self.norm(x)
        q, k, v = self.q(z).flatten(2), self.k(z).flatten(2), self.v(z).flatten(2)  # (B, C, pixels)
        attn = torch.einsum("bci,bcj->bij", q, k).mul(x.shape[1] ** -0.5).softmax(-1)
        return x + self.proj_out(torch.einsum("bij,bcj->bci", attn, v).view(x.shape))


cfg = load_config("configs/sd_small.yaml")
