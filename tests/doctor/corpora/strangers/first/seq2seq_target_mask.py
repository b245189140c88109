import torch
import torch.nn as nn


class TinyDecoder(nn.Module):
    """Decoder-only language model with nn.MultiheadAttention. ids (B, T), 0 is padding (on the right)."""

    def __init__(self, vocab=40, dim=32, heads=4, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        B, T = ids.shape
        x = self.tok(ids) + self.pos(torch.arange(T, device=ids.device))
        h = self.norm(x)
        pad = ids.eq(0)
        if pad.any():
            a, _ = self.attn(h, h, h, key_padding_mask=pad, need_weights=False)
        else:
            causal = torch.ones(T, T, dtype=torch.bool, device=ids.device).triu(1)
            a, _ = self.attn(h, h, h, attn_mask=causal, need_weights=False)
        return self.head(x + a)


lm = TinyDecoder()
print(lm(torch.randint(1, 40, (2, 8))).shape)
