import torch
import torch.nn as nn


class NMTDecoder(nn.Module):
    """tgt (B, T) ids, memory (B, S, d) encoder states, src_pad (B, S) True = padding. Pad id is 1."""

    def __init__(self, vocab=60, d=32, nhead=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d, padding_idx=1)
        self.sa = nn.MultiheadAttention(d, nhead, batch_first=True)
        self.ca = nn.MultiheadAttention(d, nhead, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.generator = nn.Linear(d, vocab)

    def forward(self, tgt, memory, src_pad):
        T = tgt.size(1)
        causal = torch.triu(torch.ones(T, T, dtype=torch.bool, device=tgt.device), diagonal=1)
        tgt_pad = tgt.eq(1)
        x = self.embed(tgt)
        y = self.sa(x, x, x, attn_mask=causal, key_padding_mask=tgt_pad)[0]
        x = self.n1(x + y)
        y = self.ca(x, memory, memory, key_padding_mask=tgt_pad)[0]
        x = self.n2(x + y)
        return self.generator(x)


dec = NMTDecoder()
tgt = torch.tensor([[2, 9, 8, 7, 3], [2, 6, 5, 3, 1]])
src_pad = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
print(dec(tgt, torch.randn(2, 5, 32), src_pad).shape)
