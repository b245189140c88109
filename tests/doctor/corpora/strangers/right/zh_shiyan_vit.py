# 视觉Transformer的编码块（课程作业）
import torch
from torch import nn


class 自注意力(nn.Module):
    """多头自注意力；输入输出形状均为 (B, N, C)"""

    def __init__(self, dim, num_heads=8, qkv_bias=True, dropout=0.0):
        super().__init__()
        assert dim % num_heads == 0, 'dim 必须能整除 num_heads'
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5        # 缩放因子 1/sqrt(d_k)
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        B, N, C = x.shape
        # (B, N, 3C) -> (3, B, 头数, N, 每头维度)
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = self.drop(attn.softmax(dim=-1))         # 在键的维度上做softmax
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class 编码块(nn.Module):
    def __init__(self, dim=48, num_heads=6):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = 自注意力(dim, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))   # 残差连接
        x = x + self.mlp(self.norm2(x))
        return x


if __name__ == '__main__':
    print(编码块()(torch.randn(2, 17, 48)).shape)
