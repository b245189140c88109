import torch
from torch import nn
from torch.nn import functional as F


class MultiHeadCausalAttention(nn.Module):
    def __init__(self, emb_dim, n_heads, context_len, bias=True):
        super().__init__()
        self.n_heads = n_heads
        self.emb_dim = emb_dim
        self.context_len = context_len
        self.qkv = nn.Linear(emb_dim, 3 * emb_dim, bias=bias)

    def forward(self, x):
        b, n, _ = x.size()
        qkv = self.qkv(x).reshape(b, n, 3, self.n_heads, self.emb_dim // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.permute(0, 2, 1, 3).reshape(b, n, self.emb_dim)


if __name__ == "__main__":
    attn = MultiHeadCausalAttention(48, 6, 32)
    print(attn(torch.randn(2, 10, 48)).size())
