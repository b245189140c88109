import torch
import torch.nn as nn
import torch.nn.functional as F


def get_slopes(n_heads):
    start = 2 ** (-8 / n_heads)
    return torch.tensor([start**i for i in range(n_heads)])


class ALiBiAttention(nn.Module):
    """Causal attention with linear biases (train short, test long)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.register_buffer("slopes", get_slopes(n_heads).view(1, n_heads, 1, 1))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.n_heads, self.d_head).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / self.d_head**0.5
        pos = torch.arange(n, device=x.device)
        distance = pos[None, :] - pos[:, None]  # j - i, negative for the past
        scores = scores + self.slopes * distance
        scores = scores.masked_fill(distance > 0, float("-inf"))
        out = F.softmax(scores, dim=-1) @ v
        return self.out(out.transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    print(get_slopes(8))
    print(ALiBiAttention(64, 8)(torch.randn(2, 9, 64)).shape)
