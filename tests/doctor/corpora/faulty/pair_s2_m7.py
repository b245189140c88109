import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskedAttention(nn.Module):
    """Decoder attention. `look_ahead` is 0 for visible and 1 for hidden positions, (length, length)."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.head_size = size // heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.dense = nn.Linear(size, size)

    def forward(self, x):
        b, n, size = x.shape
        look_ahead = 1 - torch.tril(torch.ones(n, n, device=x.device))
        q = self.query(x).view(b, n, self.heads, self.head_size).transpose(1, 2)
        k = self.key(x).view(b, n, self.heads, self.head_size).transpose(1, 2)
        v = self.value(x).view(b, n, self.heads, self.head_size).transpose(1, 2)
        logits = torch.matmul(q, k.transpose(-1, -2))
        logits = logits + look_ahead
        out = torch.matmul(F.softmax(logits, dim=-1), v)
        return self.dense(out.transpose(1, 2).reshape(b, n, size))
