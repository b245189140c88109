import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, heads, causal=True, drop=0.0):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.fc_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.drop = nn.Dropout(drop)

    def attn(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.drop(self.proj(y.transpose(1, 2).flatten(2)))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        # feed forward
        x = self.ln_2(x)
        x = self.drop(self.fc_proj(F.gelu(self.fc(x))))
        x = x + x
        return x


if __name__ == "__main__":
    print(Block(48, 4)(torch.randn(2, 7, 48)).shape)
