import torch
import torch.nn as nn


class RollingBufferAttention(nn.Module):
    """Sliding window attention with a rolling cache of `window` keys: token i sees tokens i - window + 1 ... i."""

    def __init__(self, dim, n_heads, window=4, max_batch=8):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.window = window
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("cache_k", torch.zeros(max_batch, window, n_heads, self.head_dim), persistent=False)
        self.register_buffer("cache_v", torch.zeros(max_batch, window, n_heads, self.head_dim), persistent=False)
        self.register_buffer("slot_pos", torch.full((window,), -1), persistent=False)

    @torch.no_grad()
    def forward(self, x, start_pos=0):
        b, n, c = x.shape
        if start_pos == 0:
            self.slot_pos.fill_(-1)
        q = self.wq(x).view(b, n, self.n_heads, self.head_dim)
        k = self.wk(x).view(b, n, self.n_heads, self.head_dim)
        v = self.wv(x).view(b, n, self.n_heads, self.head_dim)

        pos = torch.arange(start_pos, start_pos + n, device=x.device)
        for t in range(n):
            slot = int(pos[t]) % self.window
            self.cache_k[:b, slot] = k[:, t]
            self.cache_v[:b, slot] = v[:, t]
            self.slot_pos[slot] = pos[t]

        scores = torch.einsum("bnhd,bmhd->bhnm", q, self.cache_k[:b]) / self.head_dim**0.5
        kp = self.slot_pos
        keep = (kp >= 0) & (kp <= pos[:, None]) & (kp > pos[:, None] - self.window)
        weights = scores.masked_fill(~keep, -1e9).softmax(dim=-1)
        out = torch.einsum("bhnm,bmhd->bnhd", weights, self.cache_v[:b])
        return self.wo(out.reshape(b, n, c))


if __name__ == "__main__":
    attn = RollingBufferAttention(32, 4)
    x = torch.randn(1, 10, 32)
    attn(x[:, :6])
    for i in range(6, 10):
        print(attn(x[:, i : i + 1], i).shape)
