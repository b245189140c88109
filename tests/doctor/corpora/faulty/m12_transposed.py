import torch
import torch.nn as nn


class MultiHeadMaskedAttention(nn.Module):
    """Masked multi-head attention for a decoder-only model: every token sees itself and what came before."""

    def __init__(self, embedding_dim, num_heads):
        super().__init__()
        self.embedding_dim = embedding_dim
        self.num_heads = num_heads
        self.head_dim = embedding_dim // num_heads
        self.Wq = nn.Linear(embedding_dim, embedding_dim)
        self.Wk = nn.Linear(embedding_dim, embedding_dim)
        self.Wv = nn.Linear(embedding_dim, embedding_dim)
        self.Wo = nn.Linear(embedding_dim, embedding_dim)

    def forward(self, x):
        bsz, T, _ = x.shape
        Q = self.Wq(x).reshape(bsz, T, self.num_heads, self.head_dim).transpose(1, 2)
        K = self.Wk(x).reshape(bsz, T, self.num_heads, self.head_dim).transpose(1, 2)
        V = self.Wv(x).reshape(bsz, T, self.num_heads, self.head_dim).transpose(1, 2)
        scores = Q @ K.transpose(-1, -2) / (self.head_dim**0.5)
        causal_mask = torch.triu(torch.ones(T, T, device=x.device))
        scores = scores.masked_fill(causal_mask == 0, float("-inf"))
        weights = scores.softmax(dim=-1)
        context = (weights @ V).transpose(1, 2).reshape(bsz, T, self.embedding_dim)
        return self.Wo(context)
