import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, embed_dim=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.q_linear = nn.Linear(embed_dim, embed_dim)
        self.k_linear = nn.Linear(embed_dim, embed_dim)
        self.v_linear = nn.Linear(embed_dim, embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, mask=None):
        """query (B, Lq, E), key and value (B, Lk, E)"""
        B, L, E = query.shape
        q = self.q_linear(query).view(B, L, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_linear(key).view(B, L, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_linear(value).view(B, L, self.num_heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / self.head_dim ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        out = torch.softmax(scores, dim=-1) @ v
        return self.out(out.transpose(1, 2).contiguous().view(B, L, E))


if __name__ == "__main__":
    x = torch.randn(2, 6, 32)
    enc = torch.randn(2, 6, 32)
    print(MultiHeadAttention()(x, enc, enc).shape)
