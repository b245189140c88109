import torch
from torch import nn
import torch.nn.functional as F


class CausalBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, vocab=80, d=32, h=4, depth=3, max_len=64):
        super().__init__()
        self.depth = depth
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(max_len, d)
        self.blocks = {f"block{i}": CausalBlock(d, h) for i in range(depth)}
        self.norm = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for i in range(self.depth):
            x = self.blocks[f"block{i}"](x)
        return self.lm_head(self.norm(x))


if __name__ == "__main__":
    print(Decoder()(torch.randint(0, 80, (2, 10))).shape)
