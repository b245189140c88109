import torch
from torch import nn, einsum
from einops import rearrange, repeat


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim, heads=4, dim_head=12):
        super().__init__()
        inner = heads * dim_head
        self.scale = dim_head ** -0.5
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def forward(self, x, context=None, mask=None):
        h = self.heads
        context = x if context is None else context
        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = map(lambda t: rearrange(t, 'b n (h d) -> (b h) n d', h=h), (q, k, v))
        sim = einsum('b i d, b j d -> b i j', q, k) * self.scale
        if mask is not None:
            mask = rearrange(mask, 'b ... -> b (...)')
            max_neg_value = -torch.finfo(sim.dtype).max
            mask = repeat(mask, 'b j -> (b h) () j', h=h)
            sim.masked_fill_(~mask, max_neg_value)
        attn = sim.softmax(dim=-1)
        out = einsum('b i j, b j d -> b i d', attn, v)
        out = rearrange(out, '(b h) n d -> b n (h d)', h=h)
        return self.to_out(out)


class PreNormCross(nn.Module):
    def __init__(self, dim, context_dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.norm_context = nn.LayerNorm(context_dim)
        self.fn = CrossAttention(dim, context_dim)

    def forward(self, x, context, mask=None):
        return self.fn(self.norm(x), self.norm_context(context), mask)


class PerceiverIO(nn.Module):
    def __init__(self, dim=20, latent_dim=32, num_latents=6):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, latent_dim))
        self.cross = PreNormCross(latent_dim, dim)
        self.self_attn = CrossAttention(latent_dim, latent_dim)
        self.norm = nn.LayerNorm(latent_dim)

    def forward(self, data, mask=None):
        x = repeat(self.latents, 'n d -> b n d', b=data.shape[0])
        x = x + self.cross(x, data, mask)
        x = x + self.self_attn(self.norm(x))
        return x
