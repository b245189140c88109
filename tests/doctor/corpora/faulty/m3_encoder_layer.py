import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, model_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = model_dim // num_heads
        self.query = nn.Linear(model_dim, model_dim)
        self.key = nn.Linear(model_dim, model_dim)
        self.value = nn.Linear(model_dim, model_dim)
        self.projection = nn.Linear(model_dim, model_dim)

    def forward(self, q, k, v, mask=None):
        def heads(t):
            return t.view(t.size(0), t.size(1), self.num_heads, self.head_dim).transpose(1, 2)

        q, k, v = heads(self.query(q)), heads(self.key(k)), heads(self.value(v))
        scores = q @ k.transpose(2, 3) / self.head_dim**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = F.softmax(scores, dim=-1) @ v
        return self.projection(out.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """src: (batch, src len, model_dim); src_mask: (batch, 1, 1, src len), 0 = padding"""

    def __init__(self, model_dim, num_heads, ff_dim, dropout=0.1):
        super().__init__()
        self.self_attention = MultiHeadAttention(model_dim, num_heads)
        self.norm1 = nn.LayerNorm(model_dim)
        self.norm2 = nn.LayerNorm(model_dim)
        self.ff = nn.Sequential(nn.Linear(model_dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, model_dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, src_mask=None):
        src = self.norm1(src + self.dropout(self.self_attention(src, src, src)))
        src = self.norm2(src + self.dropout(self.ff(src)))
        return src


class Encoder(nn.Module):
    def __init__(self, vocab, model_dim=64, num_heads=4, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab, model_dim)
        self.layers = nn.ModuleList([EncoderLayer(model_dim, num_heads, 4 * model_dim) for _ in range(layers)])

    def forward(self, src, src_mask=None):
        x = self.embedding(src)
        for layer in self.layers:
            x = layer(x, src_mask)
        return x


if __name__ == "__main__":
    ids = torch.randint(1, 50, (2, 9))
    print(Encoder(50)(ids, (ids != 0)[:, None, None]).shape)
