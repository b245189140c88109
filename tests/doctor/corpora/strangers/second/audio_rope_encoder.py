"""Audio encoder layer with rotary positions (complex multiplication)."""
import torch
from torch import nn
import torch.nn.functional as F


class AudioEncoderLayer(nn.Module):
    def __init__(self, width=80, heads=5, max_frames=200, p=0.1):
        super().__init__()
        self.heads = heads
        self.ln_a, self.ln_f = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.o = nn.Linear(width, width)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(p), nn.Linear(4 * width, width))
        freq = 10000 ** (-torch.arange(0, width, 2) / width)
        phase = torch.arange(max_frames)[:, None] * freq
        self.register_buffer("cis", torch.polar(torch.ones_like(phase), phase), persistent=False)

    def rotate(self, x):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * self.cis[:x.size(-2)]).flatten(-2)

    def heads_of(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        y = self.ln_a(x)
        q, k, v = self.rotate(self.q(y)), self.rotate(self.k(y)), self.v(y)
        q, k, v = self.heads_of(q), self.heads_of(k), self.heads_of(v)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.o(a)
        return x + self.ff(self.ln_f(x))


if __name__ == "__main__":
    print(AudioEncoderLayer().eval()(torch.randn(2, 25, 80)).shape)
