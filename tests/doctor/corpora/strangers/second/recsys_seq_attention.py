"""Sequential recommendation: attention over the clicked items."""
import torch
from torch import nn
import torch.nn.functional as F


class ItemAttention(nn.Module):
    def __init__(self, emb_dim: int, n_heads: int):
        super().__init__()
        self.h = n_heads
        self.dk = emb_dim // n_heads
        self.Q = nn.Linear(self.dk, self.dk)
        self.K = nn.Linear(self.dk, self.dk)
        self.V = nn.Linear(self.dk, self.dk)
        self.O = nn.Linear(emb_dim, emb_dim)

    def forward(self, items):
        b, n, e = items.shape
        s = items.view(b, n, self.h, self.dk).transpose(1, 2)  # b h n dk
        q, k, v = self.Q(s), self.K(s), self.V(s)
        z = F.scaled_dot_product_attention(q, k, v)
        return self.O(z.transpose(1, 2).reshape(b, n, e))


class SeqRec(nn.Module):
    def __init__(self, n_items=500, emb_dim=40, n_heads=4):
        super().__init__()
        self.emb = nn.Embedding(n_items, emb_dim)
        self.att = ItemAttention(emb_dim, n_heads)
        self.norm = nn.LayerNorm(emb_dim)

    def forward(self, ids):
        e = self.emb(ids)
        e = self.norm(e + self.att(e))
        return e[:, -1] @ self.emb.weight.t()


if __name__ == "__main__":
    print(SeqRec()(torch.randint(0, 500, (3, 12))).shape)
