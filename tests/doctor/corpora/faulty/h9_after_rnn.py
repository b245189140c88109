from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocab=300, emb=32, heads=4, tags=7):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.gru = nn.GRU(emb, emb, batch_first=True)
        self.attn = nn.MultiheadAttention(emb, heads)
        self.out = nn.Linear(emb, tags)

    def forward(self, words):
        h, _ = self.gru(self.emb(words))  # (batch, seq, emb)
        return self.out(h + self.attn(h, h, h)[0])
