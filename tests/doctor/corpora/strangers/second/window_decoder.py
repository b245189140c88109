import math
import torch
import torch.nn as nn


class WindowedDecoderAttention(nn.Module):
    """One-token-at-a-time decoding with a cache limited to `window` keys."""

    def __init__(self, d=48, n_heads=4, window=8):
        super().__init__()
        self.h, self.dh, self.window = n_heads, d // n_heads, window
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.register_buffer("freq", 10000 ** (-torch.arange(0, self.dh, 2).float() / self.dh))

    def rotate(self, t, pos):
        # t: (B, H, 1, dh); pos: position of the token in the text
        ang = pos * self.freq
        c, s = ang.cos(), ang.sin()
        e, o = t[..., ::2], t[..., 1::2]
        return torch.stack((e * c - o * s, e * s + o * c), -1).flatten(-2)

    def step(self, x, cache=None):
        """x: (B, 1, d), cache: dict with 'k', 'v' and 'seen'"""
        B = x.size(0)
        q, k, v = self.qkv(x).view(B, 1, 3, self.h, self.dh).permute(2, 0, 3, 1, 4)
        cache = cache or {"k": k[:, :, :0], "v": v[:, :, :0], "seen": 0}
        pos = cache["k"].size(2)
        q, k = self.rotate(q, pos), self.rotate(k, pos)
        keys = torch.cat([cache["k"], k], 2)[:, :, -self.window:]
        vals = torch.cat([cache["v"], v], 2)[:, :, -self.window:]
        w = torch.softmax(q @ keys.transpose(-1, -2) / math.sqrt(self.dh), -1)
        y = self.out((w @ vals).transpose(1, 2).reshape(B, 1, -1))
        return y, {"k": keys, "v": vals, "seen": cache["seen"] + 1}

    def forward(self, x):
        ys, cache = [], None
        for t in range(x.size(1)):
            y, cache = self.step(x[:, t:t + 1], cache)
            ys.append(y)
        return torch.cat(ys, 1)


if __name__ == "__main__":
    print(WindowedDecoderAttention()(torch.randn(2, 20, 48)).shape)
