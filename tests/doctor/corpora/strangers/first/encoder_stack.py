import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.wqkv = nn.Linear(d, 3 * d, bias=False)
        self.wo = nn.Linear(d, d, bias=False)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, -1).transpose(1, 2) for t in self.wqkv(x).chunk(3, -1))
        s = q @ k.transpose(-2, -1) / (d // self.h) ** 0.5
        if mask is not None:
            s = s.masked_fill(mask[:, None, None, :] == 0, -1e9)
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class EncoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.attn = Attention(d, h)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mask=None):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class Encoder(nn.Module):
    def __init__(self, vocab=50, d=32, h=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, d, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(1, 64, d) * 0.02)
        self.layers = nn.ModuleList([EncoderLayer(d, h) for _ in range(depth)])

    def forward(self, ids):
        mask = (ids != 0)
        x = self.embed(ids) + self.pos[:, :ids.size(1)]
        for layer in self.layers:
            x = layer(x, mask)
        return x


if __name__ == "__main__":
    print(Encoder()(torch.tensor([[3, 4, 5, 0, 0], [6, 7, 8, 9, 1]])).shape)
