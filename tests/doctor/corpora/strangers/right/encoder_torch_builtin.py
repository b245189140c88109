import math
import torch
from torch import nn


def make_block_mask(n, device=None):
    return torch.triu(torch.ones(n, n, dtype=torch.bool, device=device), diagonal=1)


class CausalLM(nn.Module):
    def __init__(self, vocab=40, d=32, heads=4, layers=2, pad=0, max_len=64):
        super().__init__()
        self.pad, self.d = pad, d
        self.emb = nn.Embedding(vocab, d, padding_idx=pad)
        pe = torch.zeros(max_len, d)
        pos = torch.arange(max_len).float().unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)
        layer = nn.TransformerEncoderLayer(d, heads, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(d), enable_nested_tensor=False)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        n = ids.size(1)
        x = self.emb(ids) * math.sqrt(self.d) + self.pe[:n]
        h = self.enc(x, mask=make_block_mask(n, ids.device), src_key_padding_mask=ids == self.pad)
        return self.head(h)
