import torch
import torch.nn.functional as F
from torch import nn


class KVCache:
    """Grows by concatenation."""

    def __init__(self):
        self.k = None
        self.v = None

    def update(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v

    def __len__(self):
        return 0 if self.k is None else self.k.size(2)


class CachedCausalAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        decoding = cache is not None and len(cache) > 0
        if cache is not None:
            k, v = cache.update(k, v)
        # with a cache everything in it is in the past, so no mask is needed
        x = F.scaled_dot_product_attention(q, k, v, is_causal=not decoding)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


if __name__ == "__main__":
    attn, cache = CachedCausalAttention(32, 4), KVCache()
    x = torch.randn(2, 8, 32)
    attn(x[:, :4], cache)
    print(attn(x[:, 4:], cache).shape)
