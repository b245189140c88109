import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, emb_dim, n_heads, ctx_len):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(emb_dim, emb_dim, bias=False)
        self.key = nn.Linear(emb_dim, emb_dim, bias=False)
        self.value = nn.Linear(emb_dim, emb_dim, bias=False)
        self.proj = nn.Linear(emb_dim, emb_dim)
        self.register_buffer("causal_mask", torch.tril(torch.ones(ctx_len, ctx_len)).bool())

    def forward(self, x):
        B, T, E = x.shape
        hd = E // self.n_heads
        q = self.query(x).view(B, T, self.n_heads, hd).transpose(1, 2)
        k = self.key(x).view(B, T, self.n_heads, hd).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_heads, hd).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / hd ** 0.5
        # hide the future
        scores.masked_fill(~self.causal_mask[:T, :T], float("-inf"))
        weights = F.softmax(scores, dim=-1)
        out = (weights @ v).transpose(1, 2).contiguous().view(B, T, E)
        return self.proj(out)


if __name__ == "__main__":
    attn = MultiHeadSelfAttention(32, 4, 16)
    print(attn(torch.randn(2, 7, 32)).shape)
