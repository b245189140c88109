import torch
import torch.nn as nn
import torch.nn.functional as F


class TemperatureAttention(nn.Module):
    """temperature starts at sqrt(d) and is learned, one per head"""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        head_dim = dim // num_heads
        self.temperature = nn.Parameter(torch.full((num_heads, 1, 1), head_dim**0.5))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.num_heads, -1).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        attn = F.softmax(q @ k.transpose(-1, -2) / self.temperature, dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class CosineAttention(nn.Module):
    """Swin v2: cosine similarity with a learned, clamped logit scale"""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((num_heads, 1, 1))))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=4.6052).exp()
        if mask is not None:
            attn = attn.masked_fill(mask == 0, float("-inf"))
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))
