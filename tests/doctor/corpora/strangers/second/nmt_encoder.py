import math
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=1000):
        super(PositionalEncoding, self).__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        pe = pe.unsqueeze(0).transpose(0, 1)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[:x.size(0), :]
        return self.dropout(x)


class NMTEncoder(nn.Module):
    """src: (batch, src_len) token ids"""

    def __init__(self, vocab=300, d_model=32, nhead=4, nlayers=2):
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.embed = nn.Embedding(vocab, d_model)
        self.pos = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, nlayers)

    def forward(self, src, src_key_padding_mask=None):
        x = self.pos(self.embed(src) * self.scale)
        return self.encoder(x, src_key_padding_mask=src_key_padding_mask)


if __name__ == "__main__":
    print(NMTEncoder()(torch.randint(0, 300, (4, 11))).shape)
