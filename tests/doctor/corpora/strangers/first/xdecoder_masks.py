import torch
from torch import nn, einsum


def exists(val):
    return val is not None


def max_neg_value(tensor):
    return -torch.finfo(tensor.dtype).max


class Attention(nn.Module):
    def __init__(self, dim, dim_head=16, heads=4, dropout=0.):
        super().__init__()
        self.scale = dim_head ** -0.5
        self.heads = heads
        inner_dim = dim_head * heads
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_k = nn.Linear(dim, inner_dim, bias=False)
        self.to_v = nn.Linear(dim, inner_dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.to_out = nn.Linear(inner_dim, dim)

    def forward(self, x, context=None, mask=None, attn_mask=None):
        # mask (b, j): True = keep, attn_mask (i, j): True = keep
        b, n, _, h = *x.shape, self.heads
        kv = context if exists(context) else x
        q, k, v = self.to_q(x), self.to_k(kv), self.to_v(kv)
        q, k, v = map(lambda t: t.reshape(b, -1, h, t.shape[-1] // h).transpose(1, 2), (q, k, v))
        dots = einsum('b h i d, b h j d -> b h i j', q, k) * self.scale

        final_mask = None
        if exists(attn_mask):
            final_mask = ~attn_mask[None, None]
        if exists(mask):
            final_mask = ~mask[:, None, None, :]
        if exists(final_mask):
            dots = dots.masked_fill(final_mask, max_neg_value(dots))

        attn = self.dropout(dots.softmax(dim=-1))
        out = einsum('b h i j, b h j d -> b h i d', attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


if __name__ == '__main__':
    x = torch.randn(2, 6, 32)
    print(Attention(32)(x, mask=torch.ones(2, 6).bool(), attn_mask=torch.ones(6, 6).tril().bool()).shape)
