import torch
import torch.nn as nn
import torch.nn.functional as F


def causal_mask(n):
    """lower triangular matrix, 1 = visible"""
    return torch.tril(torch.ones(n, n))


def attend(q, k, v):
    # (B, H, T, D) each
    mask = causal_mask(q.size(-2)).to(q)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class GPTAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(attend(q, k, v).transpose(1, 2).reshape(B, T, D))


net = GPTAttention(32, 4)
print(net(torch.randn(2, 6, 32)).shape)
