import torch
import torch.nn as nn


def attention(query, key, value, mask=None, p_drop=0.1):
    """query, key, value: (..., length, dim); mask: True = keep"""
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = nn.Softmax(dim=-1)(scores)
    weights = nn.Dropout(p_drop)(weights)
    return weights @ value


class SelfAttention(nn.Module):
    def __init__(self, embed_dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.to_out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        return self.to_out(attention(q, k, v, mask).transpose(1, 2).flatten(2))


if __name__ == "__main__":
    model = SelfAttention(32, 4)
    model.eval()
    print(model(torch.randn(2, 5, 32)).shape)
