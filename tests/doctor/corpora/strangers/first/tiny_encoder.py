import math
import torch
import torch.nn as nn


class EncoderBlock(nn.Module):
    def __init__(self, dim=48, heads=6, mlp_ratio=2):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))

    def attend(self, x):
        B, N, D = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = [t.reshape(B, N, self.heads, -1).transpose(1, 2) for t in (q, k, v)]
        attn = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        attn.softmax(dim=-1)
        out = torch.matmul(attn, v)
        return self.out_proj(out.transpose(1, 2).reshape(B, N, D))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return x


if __name__ == "__main__":
    print(EncoderBlock()(torch.randn(2, 9, 48)).shape)
