import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, dim=64, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.Q = nn.Linear(dim, dim)
        self.K = nn.Linear(dim, dim)
        self.V = nn.Linear(dim, dim)
        self.O = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        """
        x:    (batch, length, dim)
        mask: (batch, length, length), nonzero = visible
        """
        b, n, d = x.shape
        q, k, v = (p(x).view(b, n, self.num_heads, -1).transpose(1, 2) for p in (self.Q, self.K, self.V))
        scores = q @ k.transpose(2, 3) / (d // self.num_heads) ** 0.5     # (batch, heads, length, length)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        out = F.softmax(scores, dim=-1) @ v
        return self.O(out.transpose(1, 2).reshape(b, n, d))


def pad_mask(lengths, n):
    keep = (torch.arange(n)[None, :] < lengths[:, None]).long()
    return keep[:, None, :].repeat(1, n, 1)


if __name__ == "__main__":
    mask = pad_mask(torch.tensor([6, 3, 4, 2]), 6)
    print(MultiHeadAttention()(torch.randn(4, 6, 64), mask).shape)
