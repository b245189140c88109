import math
import torch
from torch import nn


def get_slopes(n_heads):
    # geometric sequence, n_heads is a power of two
    start = 2.0 ** (-8.0 / n_heads)
    return torch.tensor([start ** i for i in range(n_heads)])


class ALiBiAttention(nn.Module):
    def __init__(self, d_model=64, n_heads=8, max_len=128):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        pos = torch.arange(max_len)
        dist = (pos[None, :] - pos[:, None]).float()          # j - i, <= 0 for the past
        bias = get_slopes(n_heads)[:, None, None] * dist
        bias = bias.masked_fill(pos[None, :] > pos[:, None], float("-inf"))
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.n_heads, self.d_head).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.d_head) + self.bias[:, :n, :n]
        y = s.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    print(ALiBiAttention()(torch.randn(2, 10, 64)).shape)
