import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderLayer(nn.Module):
    def __init__(self, hidden, heads, ffn_hidden):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(hidden, 3 * hidden)
        self.to_out = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.ffn = nn.Sequential(nn.Linear(hidden, ffn_hidden), nn.ReLU(), nn.Linear(ffn_hidden, hidden))

    def attention(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        # 1. self attention
        x = self.attention(x)
        # 2. add and norm
        x = self.norm1(x + x)
        # 3. feed forward, add and norm
        _x = x
        x = self.ffn(x)
        x = self.norm2(x + _x)
        return x


if __name__ == "__main__":
    print(EncoderLayer(32, 4, 64)(torch.randn(2, 6, 32)).shape)
