from types import SimpleNamespace

import torch
import torch.nn as nn

de = SimpleNamespace(size=80, unk=3, pad=0, bos=1, eos=2)
en = SimpleNamespace(size=70, unk=0, pad=3, bos=1, eos=2)


class Translator(nn.Module):
    """German to English, (batch, length) id tensors padded with the pad id of their own vocabulary."""

    def __init__(self, src_vocab, tgt_vocab, d_model=32):
        super().__init__()
        self.pad_src = src_vocab.pad
        self.pad_tgt = tgt_vocab.pad
        self.src_tok = nn.Embedding(src_vocab.size, d_model)
        self.tgt_tok = nn.Embedding(tgt_vocab.size, d_model)
        self.pos = nn.Parameter(torch.randn(1, 50, d_model) * 0.02)
        self.transformer = nn.Transformer(d_model, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.generator = nn.Linear(d_model, tgt_vocab.size)

    def forward(self, src, tgt):
        T = tgt.size(1)
        causal = torch.ones(T, T, dtype=torch.bool, device=tgt.device).triu(1)
        src_padding = src == self.pad_src
        tgt_padding = tgt == self.pad_src
        out = self.transformer(
            self.src_tok(src) + self.pos[:, :src.size(1)],
            self.tgt_tok(tgt) + self.pos[:, :T],
            tgt_mask=causal,
            src_key_padding_mask=src_padding,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=src_padding,
        )
        return self.generator(out)


if __name__ == "__main__":
    src = torch.tensor([[1, 9, 7, 2, 0], [1, 5, 6, 8, 2]])
    tgt = torch.tensor([[1, 12, 14, 2, 3], [1, 0, 10, 9, 2]])
    print(Translator(de, en)(src, tgt).shape)
