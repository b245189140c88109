import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """key, query, value: (batch, length, embed_dim)"""

    def __init__(self, embed_dim=512, n_heads=8):
        super(MultiHeadAttention, self).__init__()
        self.embed_dim = embed_dim
        self.n_heads = n_heads
        self.single_head_dim = int(self.embed_dim / self.n_heads)
        self.query_matrix = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key_matrix = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value_matrix = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, key, query, value, mask=None):
        batch_size = key.size(0)
        h, d = self.n_heads, self.single_head_dim

        k = self.key_matrix(key).view(batch_size, key.size(1), h, d).transpose(1, 2)
        q = self.query_matrix(value).view(batch_size, value.size(1), h, d).transpose(1, 2)
        v = self.value_matrix(value).view(batch_size, value.size(1), h, d).transpose(1, 2)

        product = torch.matmul(q, k.transpose(-1, -2)) / d**0.5
        if mask is not None:
            product = product.masked_fill(mask == 0, float("-1e20"))
        scores = torch.softmax(product, dim=-1)
        scores = torch.matmul(scores, v)
        concat = scores.transpose(1, 2).contiguous().view(batch_size, -1, h * d)
        return self.out(concat)


if __name__ == "__main__":
    x = torch.randn(2, 4, 512)
    print(MultiHeadAttention()(x, x, x).shape)
