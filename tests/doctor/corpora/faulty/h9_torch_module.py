import torch
import torch.nn as nn


class TransformerBlock(nn.Module):
    """x: (batch_size, seq_len, embed_dim)"""

    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
        super().__init__()
        self.att = nn.MultiheadAttention(embed_dim, num_heads)
        self.ffn = nn.Sequential(nn.Linear(embed_dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, embed_dim))
        self.layernorm1 = nn.LayerNorm(embed_dim)
        self.layernorm2 = nn.LayerNorm(embed_dim)
        self.dropout1 = nn.Dropout(rate)
        self.dropout2 = nn.Dropout(rate)

    def forward(self, x):
        attn_output, _ = self.att(x, x, x)
        out1 = self.layernorm1(x + self.dropout1(attn_output))
        ffn_output = self.ffn(out1)
        return self.layernorm2(out1 + self.dropout2(ffn_output))


class Classifier(nn.Module):
    def __init__(self, vocab_size=20000, maxlen=200, embed_dim=32, num_heads=2, ff_dim=32):
        super().__init__()
        self.token_emb = nn.Embedding(vocab_size, embed_dim)
        self.pos_emb = nn.Embedding(maxlen, embed_dim)
        self.block = TransformerBlock(embed_dim, num_heads, ff_dim)
        self.out = nn.Linear(embed_dim, 2)

    def forward(self, x):
        # x: (batch_size, seq_len)
        x = self.token_emb(x) + self.pos_emb(torch.arange(x.size(1), device=x.device))
        return self.out(self.block(x).mean(dim=1))


if __name__ == "__main__":
    print(Classifier()(torch.randint(0, 20000, (4, 50))).shape)
