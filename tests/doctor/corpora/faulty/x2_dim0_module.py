import torch
from torch import nn


class ScaledDotProduct(nn.Module):
    def __init__(self, embedding_dim):
        super().__init__()
        self.embedding_dim = embedding_dim
        self.softmax = nn.Softmax(dim=0)
        self.w_q = nn.Linear(embedding_dim, embedding_dim)
        self.w_k = nn.Linear(embedding_dim, embedding_dim)
        self.w_v = nn.Linear(embedding_dim, embedding_dim)

    def forward(self, x, mask=None):
        """
        Args:
            x: tensor of shape (batch, tokens, embedding_dim)
            mask: optional tensor of shape (batch, tokens, tokens), nonzero entries are kept
        """
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        logits = q @ k.transpose(1, 2) / self.embedding_dim**0.5
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -1e10)
        return self.softmax(logits) @ v
