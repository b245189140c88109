import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def scores(self, q, k, mask):
        s = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        return s if mask is None else s.masked_fill(~mask, float("-inf"))

    def forward(self, x, mask=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        p = self.scores(q, k, None).softmax(-1)
        return self.proj((p @ v).transpose(1, 2).reshape(B, T, D))


class TransformerModel(nn.Module):
    """Small language model; ids (B, T)"""

    def __init__(self, vocab=64, dim=32, n_heads=4, layers=2, max_len=64):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.attn = nn.ModuleList([SelfAttention(dim, n_heads) for _ in range(layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        T = ids.size(1)
        causal = torch.ones(T, T, dtype=torch.bool, device=ids.device).tril()
        x = self.tok(ids) + self.pos(torch.arange(T, device=ids.device))
        for attn, norm in zip(self.attn, self.norm):
            x = x + attn(norm(x), mask=causal)
        return self.head(x)


if __name__ == "__main__":
    print(TransformerModel()(torch.randint(0, 64, (2, 9))).shape)
