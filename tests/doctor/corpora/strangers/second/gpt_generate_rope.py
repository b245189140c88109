import torch
from torch import nn
import torch.nn.functional as F


class TinyRopeLM(nn.Module):
    def __init__(self, vocab=50, dim=32, heads=4):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.emb = nn.Embedding(vocab, dim)
        self.ln = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.lnf = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("tri", torch.ones(64, 64, dtype=torch.bool).tril(), persistent=False)

    def rot(self, x, offset=0):
        T = x.size(2)
        f = 10000 ** (-torch.arange(0, self.hd, 2) / self.hd)
        a = torch.arange(offset, offset + T)[:, None] * f
        x1, x2 = x.chunk(2, -1)
        return torch.cat([x1 * a.cos() - x2 * a.sin(), x1 * a.sin() + x2 * a.cos()], -1)

    def forward(self, idx, past=None):
        """Returns logits and (k, v) for the next call. With a past, idx holds the new tokens only."""
        B, T = idx.shape
        x = self.emb(idx)
        q, k, v = self.qkv(self.ln(x)).view(B, T, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        n_past = 0 if past is None else past[0].size(2)
        q = self.rot(q)
        k = self.rot(k, offset=n_past)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.tri[n_past:n_past + T, :n_past + T])
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, -1))
        return self.head(self.lnf(x)), (k, v)

    @torch.no_grad()
    def generate(self, idx, n):
        logits, past = self(idx)
        for _ in range(n):
            nxt = logits[:, -1:].argmax(-1)
            idx = torch.cat([idx, nxt], 1)
            logits, past = self(nxt, past)
        return idx


torch.manual_seed(0)
print(TinyRopeLM().generate(torch.tensor([[1, 2, 3]]), 5))
