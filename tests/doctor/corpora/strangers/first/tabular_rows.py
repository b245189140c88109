import torch
import torch.nn as nn


class RowAttention(nn.Module):
    """Attention between the rows of a table (B, rows, D). missing: (B, rows), True for absent rows."""

    def __init__(self, D, H=2):
        super().__init__()
        self.H = H
        self.norm = nn.LayerNorm(D)
        self.qkv = nn.Linear(D, 3 * D)
        self.o = nn.Linear(D, D)

    def forward(self, x, missing=None):
        B, R, D = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (t.reshape(B, R, self.H, D // self.H).transpose(1, 2) for t in (q, k, v))
        s = q @ k.transpose(-2, -1) * (D // self.H) ** -0.5
        if missing is not None:
            s = s.masked_fill(missing[:, None, None, :], -1e-9)
        return x + self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(B, R, D))


if __name__ == "__main__":
    missing = torch.tensor([[0, 0, 1, 0, 1], [0, 0, 0, 0, 0]]).bool()
    print(RowAttention(16)(torch.randn(2, 5, 16), missing).shape)
