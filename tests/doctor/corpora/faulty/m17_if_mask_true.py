import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, embed_dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = embed_dim // heads
        self.W_Q = nn.Linear(embed_dim, embed_dim)
        self.W_K = nn.Linear(embed_dim, embed_dim)
        self.W_V = nn.Linear(embed_dim, embed_dim)
        self.W_O = nn.Linear(embed_dim, embed_dim)

    def forward(self, q, k, v, mask=None):
        B, L, E = q.shape
        q = self.W_Q(q).view(B, -1, self.heads, self.head_dim).transpose(1, 2)
        k = self.W_K(k).view(B, -1, self.heads, self.head_dim).transpose(1, 2)
        v = self.W_V(v).view(B, -1, self.heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        if mask == True:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = F.softmax(scores, dim=-1) @ v
        return self.W_O(out.transpose(1, 2).reshape(B, L, E))
