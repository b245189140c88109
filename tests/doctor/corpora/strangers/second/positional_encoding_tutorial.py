import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 500):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(2 * torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, :x.size(1)])


class Classifier(nn.Module):
    def __init__(self, vocab=200, d_model=32, heads=4, classes=3):
        super().__init__()
        self.d_model = d_model
        self.emb = nn.Embedding(vocab, d_model)
        self.pos = PositionalEncoding(d_model)
        self.attn = nn.MultiheadAttention(d_model, heads, batch_first=True)
        self.norm = nn.LayerNorm(d_model)
        self.fc = nn.Linear(d_model, classes)

    def forward(self, ids):
        x = self.pos(self.emb(ids) * math.sqrt(self.d_model))
        x = self.norm(x + self.attn(x, x, x, need_weights=False)[0])
        return self.fc(x.mean(1))


if __name__ == "__main__":
    print(Classifier()(torch.randint(0, 200, (2, 15))).shape)
