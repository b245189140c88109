import math
import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, width, heads, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.to_qkv = nn.Linear(width, width * 3)
        self.to_out = nn.Linear(width, width)

    def forward(self, x, pad_mask=None):
        # pad_mask: (B, T), True where the token is padding
        B, T, W = x.shape
        q, k, v = self.to_qkv(x).view(B, T, 3, self.heads, W // self.heads).permute(2, 0, 3, 1, 4)
        sim = q @ k.transpose(-1, -2) / math.sqrt(W // self.heads)
        if pad_mask is not None:
            sim = sim.masked_fill(pad_mask[:, None, None, :], -1e9)
        elif self.causal:
            future = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), 1)
            sim = sim.masked_fill(future, -1e9)
        out = sim.softmax(-1) @ v
        return self.to_out(out.transpose(1, 2).reshape(B, T, W))


class Block(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.attn = Attention(width, heads, causal=True)
        self.ln = nn.LayerNorm(width)

    def forward(self, x, pad_mask=None):
        return x + self.attn(self.ln(x), pad_mask)


if __name__ == "__main__":
    pad = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]).bool()
    print(Block()(torch.randn(2, 5, 32), pad).shape)
