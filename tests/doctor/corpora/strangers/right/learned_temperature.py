import math
import torch
from torch import nn


class TemperedAttention(nn.Module):
    """LSA of 'Vision Transformer for Small-Size Datasets': learned temperature + diagonal masking off by default"""

    def __init__(self, dim, heads, mask_diagonal=False):
        super().__init__()
        self.heads, self.mask_diagonal = heads, mask_diagonal
        dim_head = dim // heads
        self.temperature = nn.Parameter(torch.log(torch.tensor(dim_head ** -0.5)))
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = map(lambda t: t.view(b, n, self.heads, -1).transpose(1, 2), self.to_qkv(x).chunk(3, dim=-1))
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.temperature.exp()
        if self.mask_diagonal:   # the paper hides every token from itself (needs n > 1)
            eye = torch.eye(n, device=x.device, dtype=torch.bool)
            dots = dots.masked_fill(eye, -torch.finfo(dots.dtype).max)
        out = torch.matmul(dots.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))
