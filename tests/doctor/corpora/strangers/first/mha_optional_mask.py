import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, emb_dim: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = emb_dim // n_heads
        self.query = nn.Linear(emb_dim, emb_dim)
        self.key = nn.Linear(emb_dim, emb_dim)
        self.value = nn.Linear(emb_dim, emb_dim)
        self.out = nn.Linear(emb_dim, emb_dim)

    def forward(self, q, k, v, mask=None):
        bs = q.size(0)
        q = self.query(q).view(bs, -1, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.key(k).view(bs, -1, self.n_heads, self.head_dim).transpose(1, 2)
        v = self.value(v).view(bs, -1, self.n_heads, self.head_dim).transpose(1, 2)
        product = torch.matmul(q, k.transpose(-1, -2)) / self.head_dim ** 0.5
        if mask is not None:
            product = product.masked_fil(mask == 0, float("-1e20"))
        scores = torch.softmax(product, dim=-1)
        concat = torch.matmul(scores, v).transpose(1, 2).reshape(bs, -1, self.n_heads * self.head_dim)
        return self.out(concat)


if __name__ == "__main__":
    x = torch.randn(2, 5, 32)
    print(MultiHeadAttention(32, 4)(x, x, x).shape)
