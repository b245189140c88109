import torch
import torch.nn as nn
import torch.nn.functional as F


def padding_mask(ids, pad_id=0):
    return (ids != pad_id)[:, None, None, :]


class MultiHeadAttention(nn.Module):
    def __init__(self, emb_dim: int, n_heads: int):
        super().__init__()
        self.n_heads, self.d_h = n_heads, emb_dim // n_heads
        self.q = nn.Linear(emb_dim, emb_dim)
        self.k = nn.Linear(emb_dim, emb_dim)
        self.v = nn.Linear(emb_dim, emb_dim)
        self.o = nn.Linear(emb_dim, emb_dim)

    def forward(self, query, key, value, mask=None):
        """mask comes from padding_mask()"""
        b, n, e = query.shape
        q = self.q(query).view(b, -1, self.n_heads, self.d_h).transpose(1, 2)
        k = self.k(key).view(b, -1, self.n_heads, self.d_h).transpose(1, 2)
        v = self.v(value).view(b, -1, self.n_heads, self.d_h).transpose(1, 2)
        attn = torch.matmul(q, k.transpose(2, 3)) / self.d_h**0.5
        if mask is not None:
            attn = attn + mask
        attn = F.softmax(attn, dim=-1)
        return self.o(torch.matmul(attn, v).transpose(1, 2).reshape(b, n, e))


if __name__ == "__main__":
    ids = torch.tensor([[5, 6, 7, 0], [8, 9, 0, 0]])
    emb = nn.Embedding(10, 16)
    x = emb(ids)
    print(MultiHeadAttention(16, 2)(x, x, x, padding_mask(ids)).shape)
