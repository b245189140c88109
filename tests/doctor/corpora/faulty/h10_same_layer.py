import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderLayer(nn.Module):
    def __init__(self, d_model, heads, d_ff, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)
        self.norm_1 = nn.LayerNorm(d_model)
        self.norm_2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.dropout = nn.Dropout(dropout)

    def attend(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(out.transpose(1, 2).reshape(b, n, d))

    def forward(self, x, mask=None):
        x = x + self.dropout(self.attend(self.norm_1(x), mask))
        return x + self.dropout(self.ff(self.norm_2(x)))


class TransformerEncoder(nn.Module):
    def __init__(self, d_model=64, heads=4, n_layers=6, d_ff=128):
        super().__init__()
        layer = EncoderLayer(d_model, heads, d_ff)
        self.layers = nn.ModuleList([layer] * n_layers)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        """mask: (B, 1, 1, N) bool, True = attend"""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


if __name__ == "__main__":
    enc = TransformerEncoder()
    print(sum(p.numel() for p in enc.parameters()), enc(torch.randn(2, 9, 64)).shape)
