import math
import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.dk = h, d // h
        self.wq, self.wk, self.wv, self.wo = [nn.Linear(d, d) for _ in range(4)]

    def forward(self, q, kv, keep=None):
        B, n, d = q.shape
        m = kv.size(1)
        Q = self.wq(q).view(B, n, self.h, self.dk).transpose(1, 2)
        K = self.wk(kv).view(B, m, self.h, self.dk).transpose(1, 2)
        V = self.wv(kv).view(B, m, self.h, self.dk).transpose(1, 2)
        s = Q @ K.transpose(-1, -2) / math.sqrt(self.dk)
        if keep is not None:
            s = s.masked_fill(keep.logical_not(), torch.finfo(s.dtype).min)
        return self.wo((s.softmax(-1) @ V).transpose(1, 2).reshape(B, n, d))


def ff(d):
    return nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))


class EncLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.norm, self.attn, self.ff = nn.LayerNorm(d), MHA(d, h), ff(d)

    def forward(self, x, keep):
        y = self.norm(x)
        x = x + self.attn(y, y, keep)
        return x + self.ff(x)


class DecLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.self_attn, self.cross, self.ff = MHA(d, h), MHA(d, h), ff(d)

    def forward(self, x, memory, tgt_keep, mem_keep):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, tgt_keep)
        x = x + self.cross(self.norm2(x), memory, mem_keep)
        return x + self.ff(x)


class TinyTranslator(nn.Module):
    def __init__(self, src_vocab=25, tgt_vocab=27, d=32, h=4, src_pad=0, tgt_pad=2, max_len=40):
        super().__init__()
        self.src_pad, self.tgt_pad = src_pad, tgt_pad
        self.se, self.te, self.pe = nn.Embedding(src_vocab, d), nn.Embedding(tgt_vocab, d), nn.Embedding(max_len, d)
        self.enc = nn.ModuleList([EncLayer(d, h) for _ in range(2)])
        self.dec = nn.ModuleList([DecLayer(d, h) for _ in range(2)])
        self.enc_norm, self.dec_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.out = nn.Linear(d, tgt_vocab)

    def forward(self, src, tgt):
        src_keep = (src != self.src_pad)[:, None, None, :]
        n = tgt.size(1)
        tgt_keep = (tgt != self.tgt_pad)[:, None, None, :] & torch.ones(n, n).tril().bool().to(tgt.device)
        x = self.se(src) + self.pe.weight[:src.size(1)]
        for layer in self.enc:
            x = layer(x, src_keep)
        x, y = self.enc_norm(x), self.te(tgt) + self.pe.weight[:n]
        for layer in self.dec:
            y = layer(y, x, tgt_keep, src_keep)
        return self.out(self.dec_norm(y))
