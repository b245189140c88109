import math
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class NextTokenModel(nn.Module):
    """GPT-style model: predicts token t+1 from tokens 0..t"""

    def __init__(self, vocab=100, d_model=32, nhead=4, layers=2):
        super().__init__()
        self.d_model = d_model
        self.embed = nn.Embedding(vocab, d_model)
        self.pe = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 64, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers)
        self.to_logits = nn.Linear(d_model, vocab)

    def forward(self, ids):
        x = self.pe(self.embed(ids) * math.sqrt(self.d_model))
        x = self.blocks(x)
        return self.to_logits(x)


if __name__ == "__main__":
    ids = torch.randint(0, 100, (2, 12))
    logits = NextTokenModel()(ids)
    print(nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()))
