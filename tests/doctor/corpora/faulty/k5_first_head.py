import torch
import torch.nn as nn
import torch.nn.functional as F


class RotaryCausalAttention(nn.Module):
    """Causal attention with rotary positions and a cache (k, v); positions continue after the cached ones."""

    def __init__(self, embed_dim, num_heads, max_len=256):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        freq = 10000.0 ** (-torch.arange(0, self.head_dim, 2) / self.head_dim)
        angles = torch.arange(max_len)[:, None] * freq
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x, cos, sin):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)

    def forward(self, x, cache=None):
        B, L, E = x.shape
        q, k, v = self.in_proj(x).view(B, L, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        start = 0 if cache is None else cache[0].size(2)
        if L == 1:
            # only one new token, rotate just that one
            q, k = q.clone(), k.clone()
            q[:, 0] = self.rotate(q[:, 0], self.cos[start], self.sin[start])
            k[:, 0] = self.rotate(k[:, 0], self.cos[start], self.sin[start])
        else:
            q = self.rotate(q, self.cos[start : start + L], self.sin[start : start + L])
            k = self.rotate(k, self.cos[start : start + L], self.sin[start : start + L])
        if cache is not None:
            k = torch.cat((cache[0], k), dim=2)
            v = torch.cat((cache[1], v), dim=2)
        mask = torch.ones(L, start + L, dtype=torch.bool, device=x.device).tril(start)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(y.transpose(1, 2).reshape(B, L, E)), (k, v)


if __name__ == "__main__":
    attn = RotaryCausalAttention(32, 4)
    x = torch.randn(2, 5, 32)
    y, kv = attn(x[:, :4])
    print(attn(x[:, 4:], kv)[0].shape)
