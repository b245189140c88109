import torch
import torch.nn as nn
import torch.nn.functional as F


class VisionAttention(nn.Module):
    def __init__(self, num_heads: int, dim: int):
        super().__init__()
        self.num_heads = num_heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        qkv = self.to_qkv(x).reshape(B, N, 3, self.num_heads, D // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, scale=q.shape[1] ** -0.5)
        return self.to_out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, num_heads=4, dim=64):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = VisionAttention(num_heads, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


if __name__ == "__main__":
    print(Block()(torch.randn(2, 17, 64)).shape)
