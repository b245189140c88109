import torch
import torch.nn as nn
import torch.nn.functional as F

BLOCK_SIZE = 16


class MaskedAttention(nn.Module):
    def __init__(self, n_embed, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q = nn.Linear(n_embed, n_embed, bias=False)
        self.k = nn.Linear(n_embed, n_embed, bias=False)
        self.v = nn.Linear(n_embed, n_embed, bias=False)
        self.fc = nn.Linear(n_embed, n_embed)
        self.register_buffer("tril", torch.tril(torch.ones(BLOCK_SIZE, BLOCK_SIZE)))

    def forward(self, x):
        B, T, C = x.shape
        q = self.q(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        k = self.k(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        v = self.v(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        wei = q @ k.transpose(-2, -1) * (C // self.n_heads) ** -0.5
        wei = wei.masked_fill(self.tril == 0, float("-inf"))
        out = F.softmax(wei, dim=-1) @ v
        return self.fc(out.transpose(1, 2).reshape(B, T, C))


attn = MaskedAttention(32, 4)
xb = torch.randn(4, BLOCK_SIZE, 32)
print(attn(xb).shape)
