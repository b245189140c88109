"""Transformer encoder and decoder blocks, arguments in the order values, keys, query."""

import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, embed_size, heads):
        super().__init__()
        assert embed_size % heads == 0, "heads must divide embed_size"
        self.heads, self.head_dim = heads, embed_size // heads
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        # every length is taken from its own tensor: memory and target differ
        v, k, q = (
            lin(t).reshape(t.shape[0], t.shape[1], self.heads, self.head_dim)
            for lin, t in ((self.values, values), (self.keys, keys), (self.queries, query))
        )
        energy = torch.einsum("bihd,bjhd->bhij", q, k)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        weights = torch.softmax(energy / self.head_dim ** (1 / 2), dim=3)
        return self.fc_out(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))


class TransformerBlock(nn.Module):
    def __init__(self, embed_size, heads, dropout, forward_expansion):
        super().__init__()
        inner = forward_expansion * embed_size
        self.attention = SelfAttention(embed_size, heads)
        self.feed_forward = nn.Sequential(nn.Linear(embed_size, inner), nn.ReLU(), nn.Linear(inner, embed_size))
        self.norm1, self.norm2 = nn.LayerNorm(embed_size), nn.LayerNorm(embed_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, value, key, query, mask):
        x = self.dropout(self.norm1(query + self.attention(value, key, query, mask)))
        return self.dropout(self.norm2(x + self.feed_forward(x)))


class DecoderBlock(nn.Module):
    def __init__(self, embed_size, heads, forward_expansion, dropout, device):
        super().__init__()
        self.attention = SelfAttention(embed_size, heads)
        self.norm = nn.LayerNorm(embed_size)
        self.transformer_block = TransformerBlock(embed_size, heads, dropout, forward_expansion)
        self.dropout = nn.Dropout(dropout)
        self.to(device)

    def forward(self, x, value, key, src_mask, trg_mask):
        query = self.dropout(self.norm(x + self.attention(x, x, x, trg_mask)))
        return self.transformer_block(value, key, query, src_mask)


class Encoder(nn.Module):
    def __init__(self, vocab_size, embed_size, num_layers, heads, device, forward_expansion, dropout, max_length):
        super().__init__()
        self.device = device
        self.word_embedding = nn.Embedding(vocab_size, embed_size)
        self.position_embedding = nn.Embedding(max_length, embed_size)
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(TransformerBlock(embed_size, heads, dropout, forward_expansion))

    def forward(self, x, mask):
        places = torch.arange(x.shape[1], device=self.device)
        out = self.word_embedding(x) + self.position_embedding(places)
        for layer in self.layers:
            out = layer(out, out, out, mask)
        return out


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ids = torch.randint(1, 10, (2, 9), device=device)
    encoder = Encoder(10, 64, 2, 8, device, 4, 0.1, 100).to(device)
    print(encoder(ids, (ids != 0)[:, None, None]).shape)
