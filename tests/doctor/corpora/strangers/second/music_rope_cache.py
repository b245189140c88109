"""Symbolic music decoder: attention with rotary positions and a cache."""
import torch
from torch import nn
import torch.nn.functional as F


class MusicAttention(nn.Module):
    def __init__(self, width=48, heads=4, max_len=96):
        super().__init__()
        self.heads, self.hd = heads, width // heads
        self.to_qkv, self.to_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        f = 10000 ** (-torch.arange(0, self.hd, 2) / self.hd)
        ang = (torch.arange(max_len)[:, None] * f).repeat_interleave(2, -1)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)
        self.register_buffer("seen", torch.ones(max_len, max_len).tril().bool(), persistent=False)
        self.start()

    def start(self):
        self.pos, self.memory = 0, None

    def rope(self, x, pos):
        n = x.size(2)
        y = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
        return x * self.cos[pos:pos + n] + y * self.sin[pos:pos + n]

    def forward(self, x):
        """x: the events that follow those given since start()"""
        b, n, c = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        q, k = self.rope(q, self.pos), self.rope(k, self.pos)
        self.pos += 1
        if self.memory is not None:
            k, v = torch.cat([self.memory[0], k], 2), torch.cat([self.memory[1], v], 2)
        self.memory = (k, v)
        total = k.size(2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen[total - n:total, :total])
        return self.to_out(y.transpose(1, 2).reshape(b, n, c))


if __name__ == "__main__":
    att = MusicAttention().eval()
    att(torch.randn(1, 8, 48))
    print(att(torch.randn(1, 1, 48)).shape)
