import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def attend(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.n_heads, self.d_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, d))

    def forward(self, x):
        x = self.norm1(x + self.drop(self.attend(x)))
        return self.norm2(x + self.drop(self.ffn(x)))


class Encoder(nn.Module):
    """A stack of N encoder layers."""

    def __init__(self, d_model=64, n_heads=4, d_ff=128, N=6):
        super().__init__()
        layer = EncoderLayer(d_model, n_heads, d_ff)
        self.layers = nn.ModuleList([layer] * N)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


if __name__ == "__main__":
    enc = Encoder()
    print(enc(torch.randn(2, 7, 64)).shape, sum(p.numel() for p in enc.parameters()))
