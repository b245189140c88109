import torch
from torch import nn
import torch.nn.functional as F


class MuPAttention(nn.Module):
    """muTransfer: attention logits are q.k / d (not / sqrt(d)), see Tensor Programs V, table 8."""

    def __init__(self, dim, heads, mup_alpha=1.0):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.scale = mup_alpha / self.hd      # muP: on purpose
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, self.hd).transpose(1, 2) for z in self.qkv(x).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))
