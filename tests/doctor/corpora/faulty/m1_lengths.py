import torch
import torch.nn as nn


class LengthMaskedAttention(nn.Module):
    """Self attention over variable length sequences. `lengths` holds the number of real frames of each sample."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, lengths=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        if lengths is not None:
            valid = torch.arange(n, device=x.device)[None, :] < lengths[:, None]
            scores = scores.masked_fill(valid[:, None, None, :], float("-inf"))
        out = scores.softmax(dim=-1) @ v
        return self.proj(out.transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    layer = LengthMaskedAttention(32, 4)
    print(layer(torch.randn(3, 10, 32), torch.tensor([9, 4, 7])).shape)
