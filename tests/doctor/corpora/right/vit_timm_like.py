"""ViT blocks with stochastic depth and layer scale"""

import torch
import torch.nn as nn


class DropPath(nn.Module):
    """skips the whole branch for some samples, while training"""

    def __init__(self, drop_prob=0.0):
        super().__init__()
        self.keep = 1.0 - drop_prob

    def forward(self, x):
        if not self.training or self.keep == 1.0:
            return x
        alive = torch.rand(len(x), 1, 1, device=x.device) < self.keep
        return x * alive / self.keep


class LayerScale(nn.Module):
    def __init__(self, dim, start):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), start))

    def forward(self, x):
        return self.gamma * x


class Attention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=False, qk_scale=None, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.scale = qk_scale or (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.attn_drop, self.proj_drop = nn.Dropout(attn_drop), nn.Dropout(proj_drop)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        attn = self.attn_drop(torch.softmax(q @ k.mT * self.scale, dim=-1))
        return self.proj_drop(self.proj((attn @ v).transpose(1, 2).flatten(2))), attn


class Mlp(nn.Module):
    def __init__(self, dim, hidden, drop=0.0):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.act, self.drop = nn.GELU(), nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, qkv_bias=False, drop=0.0, drop_path=0.0, init_values=0.1):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, num_heads, qkv_bias, proj_drop=drop)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.ls1, self.ls2 = LayerScale(dim, init_values), LayerScale(dim, init_values)
        self.drop_path = DropPath(drop_path)

    def forward(self, x, return_attention=False):
        y, attn = self.attn(self.norm1(x))
        if return_attention:
            return attn
        x = x + self.drop_path(self.ls1(y))
        return x + self.drop_path(self.ls2(self.mlp(self.norm2(x))))
