import torch
import torch.nn as nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, emb, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(emb, 3 * emb)
        self.c_proj = nn.Linear(emb, emb)

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = (z.view(b, t, self.heads, e // self.heads).transpose(1, 2) for z in self.c_attn(x).split(e, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, e))


class Block(nn.Module):
    """GPT block: communication followed by computation"""

    def __init__(self, emb, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(emb)
        self.sa = SelfAttention(emb, heads)
        self.ln2 = nn.LayerNorm(emb)
        self.ffwd = nn.Sequential(nn.Linear(emb, 4 * emb), nn.ReLU(), nn.Linear(4 * emb, emb))

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        x = self.ffwd(self.ln2(x))
        return x


if __name__ == "__main__":
    print(Block(32, 4)(torch.randn(2, 6, 32)).shape)
