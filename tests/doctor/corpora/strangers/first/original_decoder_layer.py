import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        b, n, d = q.shape
        q = self.q(q).view(b, n, self.h, -1).transpose(1, 2)
        k = self.k(k).view(b, k.shape[1], self.h, -1).transpose(1, 2)
        v = self.v(v).view(b, v.shape[1], self.h, -1).transpose(1, 2)
        s = q @ k.transpose(-2, -1) / (d // self.h) ** 0.5
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class DecoderLayer(nn.Module):
    def __init__(self, d_model=32, heads=4, d_ff=64, dropout=0.1):
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.self_attn = MHA(d_model, heads)
        self.cross_attn = MHA(d_model, heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, trg_mask=None):
        x2 = self.norm_1(x)
        x = x + self.dropout(self.self_attn(x2, x2, x2, trg_mask))
        x2 = self.norm_2(x)
        x = x + self.dropout(self.cross_attn(x2, x2, x2))
        return x + self.dropout(self.ff(self.norm_3(x)))


if __name__ == "__main__":
    causal = torch.tril(torch.ones(5, 5))
    print(DecoderLayer()(torch.randn(2, 5, 32), torch.randn(2, 7, 32), causal).shape)
