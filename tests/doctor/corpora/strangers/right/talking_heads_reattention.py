import torch
from torch import nn, einsum


class TalkingHeadsAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.pre = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.post = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dots = einsum('bhid,bhjd->bhij', q, k) * self.scale
        dots = einsum('bhij,hg->bgij', dots, self.pre)      # talk before the softmax
        if mask is not None:
            dots = dots.masked_fill(~mask[:, None, None, :], -torch.finfo(dots.dtype).max)
        attn = dots.softmax(dim=-1)
        attn = einsum('bhij,hg->bgij', attn, self.post)     # and after it
        out = einsum('bhij,bhjd->bhid', attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))
