import torch
import torch.nn as nn
import torch.nn.functional as F

DTYPE = torch.float16  # everything runs in half precision to save memory


class HalfAttention(nn.Module):
    """Self attention in fp16. mask: (batch, 1, 1, seq), 0 = padding."""

    def __init__(self, dim, n_heads, dtype=DTYPE):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.q = nn.Linear(dim, dim, bias=False, dtype=dtype)
        self.k = nn.Linear(dim, dim, bias=False, dtype=dtype)
        self.v = nn.Linear(dim, dim, bias=False, dtype=dtype)
        self.o = nn.Linear(dim, dim, bias=False, dtype=dtype)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        v = self.v(x).view(b, n, self.n_heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        out = F.softmax(scores, dim=-1) @ v
        return self.o(out.transpose(1, 2).reshape(b, n, d))


if __name__ == "__main__":
    layer = HalfAttention(32, 4)
    print(layer(torch.randn(2, 5, 32, dtype=DTYPE)).dtype)
