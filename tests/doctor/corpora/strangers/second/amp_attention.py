"""Attention for fp16 inference on the GPU."""
import math
import torch
import torch.nn as nn


class HalfAttention(nn.Module):
    def __init__(self, d_model=64, heads=4, fp16=False):
        super().__init__()
        self.h, self.d = heads, d_model // heads
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)
        if fp16:
            self.half()

    def forward(self, x, mask=None):
        """x: (B, N, D); mask: (B, N), 1 = token, 0 = padding"""
        B, N, D = x.shape
        x = x.to(self.q.weight.dtype)
        q, k, v = (f(x).view(B, N, self.h, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        if mask is not None:
            s = s.masked_fill(mask[:, None, None, :] == 0, -1e9)
        y = s.softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(B, N, D))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    attn = HalfAttention(fp16=device == "cuda").to(device)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], device=device)
    print(attn(torch.randn(2, 4, 64, device=device), mask).shape)
