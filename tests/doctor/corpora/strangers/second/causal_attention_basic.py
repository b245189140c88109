import math
import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, d_model=64, n_heads=4):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.n_heads, self.d_head).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.d_head)
        mask = torch.tril(torch.ones(n, n, device=x.device))
        scores = scores.masked_fill(mask == 0, float("-inf"))
        out = scores.softmax(dim=-1) @ v
        return self.out(out.transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    print(CausalAttention()(torch.randn(2, 9, 64)).shape)
