import torch
import torch.nn as nn


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv, self.wo = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, mem, keep=None):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in (self.wq(x), self.wk(mem), self.wv(mem)))
        s = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        if keep is not None:
            s = s.masked_fill(~keep, -1e9)
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.self_attn, self.src_attn = Attn(d, h), Attn(d, h)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, memory, causal):
        y = self.n1(x)
        x = x + self.self_attn(y, y, causal)
        return x + self.src_attn(self.n2(x), memory)


class Decoder(nn.Module):
    """y: (B, T, d) target embeddings, memory: (B, S, d) encoder output"""

    def __init__(self, d=32, h=4, N=2):
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(d, h) for _ in range(N)])
        self.norm = nn.LayerNorm(d)

    def forward(self, y, memory):
        causal = torch.ones(y.size(1), y.size(1), dtype=torch.bool, device=y.device).tril()
        for layer in self.layers:
            y = layer(y, y, causal)
        return self.norm(y)


if __name__ == "__main__":
    print(Decoder()(torch.randn(2, 5, 32), torch.randn(2, 8, 32)).shape)
