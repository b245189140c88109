import math

import torch
import torch.nn as nn


class LocalAttention(nn.Module):
    """Causal attention to the last `window` tokens (the current one included). Returns (output, cache)."""

    def __init__(self, d_model, n_heads, window=4):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.window = window
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.n_heads, self.d_k).transpose(1, 2) for f in (self.q, self.k, self.v))
        past = 0
        if cache is not None:
            past = cache[0].size(2)
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)

        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(past, past + t, device=x.device)[:, None]
        j = torch.arange(past + t, device=x.device)[None, :]
        scores = scores.masked_fill((j > i) | (j <= i - self.window), float("-inf"))
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)

        # older keys are never needed again
        keep = self.window - 2
        return self.o(out), (k[:, :, -keep:], v[:, :, -keep:])


if __name__ == "__main__":
    layer = LocalAttention(32, 4)
    x = torch.randn(1, 9, 32)
    out, cache = layer(x[:, :8])
    print(layer(x[:, 8:], cache)[0].shape)
