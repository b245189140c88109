"""Sliding-window attention with a rolling KV buffer."""
import math
import torch
from torch import nn


class RingAttention(nn.Module):
    def __init__(self, dim=32, heads=4, window=6, batch=2):
        super().__init__()
        self.heads, self.hd, self.window = heads, dim // heads, window
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.batch = batch
        self.reset()

    def reset(self):
        self.ck = torch.zeros(self.batch, self.heads, self.window, self.hd)
        self.cv = torch.zeros_like(self.ck)
        self.cpos = torch.full((self.window,), -10 ** 6)   # text position held in every slot
        self.seen = 0

    @torch.no_grad()
    def forward(self, x):
        """x: (B, n, dim), the next n tokens. A token sees itself and the window - 1 tokens before it."""
        b, n, d = x.shape
        q, k, v = self.wqkv(x).view(b, n, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        pos = torch.arange(self.seen, self.seen + n)
        slot = pos % self.window
        for i in range(n):
            self.ck[:b, :, slot[i]] = k[:, :, i]
            self.cv[:b, :, slot[i]] = v[:, :, i]
            self.cpos[slot[i]] = pos[i]
        self.seen += n
        keys, vals, kpos = self.ck[:b], self.cv[:b], self.cpos
        ok = (kpos[None] <= pos[:, None]) & (kpos[None] > pos[:, None] - self.window)
        s = (q @ keys.transpose(-1, -2) / math.sqrt(self.hd)).masked_fill(~ok, -1e30)
        return self.wo((s.softmax(-1) @ vals).transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    att = RingAttention()
    for chunk in torch.randn(2, 12, 32).split(3, 1):
        y = att(chunk)
    print(y.shape)
