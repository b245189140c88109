import math

import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super(PositionalEncoding, self).__init__()
        self.dropout = nn.Dropout(p=dropout)

        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        pe = pe.unsqueeze(0).transpose(0, 1)
        self.register_buffer("pe", pe)

    def forward(self, x):
        # x: (batch, seq, d_model)
        x = x + self.pe[: x.size(0), :]
        return self.dropout(x)


class TextClassifier(nn.Module):
    def __init__(self, vocab_size, d_model=64, n_head=4, n_layers=2, n_classes=4):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, n_head, 128, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, n_layers)
        self.classifier = nn.Linear(d_model, n_classes)

    def forward(self, tokens):
        # tokens: (batch, seq)
        x = self.embedding(tokens)
        x = self.pos_encoder(x)
        x = self.encoder(x)
        return self.classifier(x.mean(dim=1))


if __name__ == "__main__":
    print(TextClassifier(100)(torch.randint(0, 100, (3, 12))).shape)
