"""Seq2seq Transformer for German to English."""

import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.fc_q = nn.Linear(d_model, d_model)
        self.fc_k = nn.Linear(d_model, d_model)
        self.fc_v = nn.Linear(d_model, d_model)
        self.fc_o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        b = q.size(0)
        Q = self.fc_q(q).view(b, -1, self.n_heads, self.d_k).transpose(1, 2)
        K = self.fc_k(k).view(b, -1, self.n_heads, self.d_k).transpose(1, 2)
        V = self.fc_v(v).view(b, -1, self.n_heads, self.d_k).transpose(1, 2)
        energy = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        x = torch.softmax(energy, dim=-1) @ V
        return self.fc_o(x.transpose(1, 2).reshape(b, -1, self.n_heads * self.d_k))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, pf_dim):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, pf_dim), nn.ReLU(), nn.Linear(pf_dim, d_model))
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, src, src_mask):
        src = self.ln1(src + self.attn(src, src, src, src_mask))
        return self.ln2(src + self.ff(src))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, pf_dim):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_heads)
        self.cross = MultiHeadAttention(d_model, n_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, pf_dim), nn.ReLU(), nn.Linear(pf_dim, d_model))
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, trg, enc_src, trg_mask, src_mask):
        trg = self.ln1(trg + self.attn(trg, trg, trg, trg_mask))
        trg = self.ln2(trg + self.cross(trg, enc_src, enc_src, src_mask))
        return self.ln3(trg + self.ff(trg))


class Transformer(nn.Module):
    def __init__(
        self, src_vocab_size, trg_vocab_size, src_pad_idx, trg_pad_idx, d_model=64, n_heads=4, n_layers=2, max_len=100
    ):
        super().__init__()
        self.src_pad_idx = src_pad_idx
        self.trg_pad_idx = trg_pad_idx
        self.src_emb = nn.Embedding(src_vocab_size, d_model)
        self.trg_emb = nn.Embedding(trg_vocab_size, d_model)
        self.src_pos = nn.Embedding(max_len, d_model)
        self.trg_pos = nn.Embedding(max_len, d_model)
        self.encoder = nn.ModuleList([EncoderLayer(d_model, n_heads, 4 * d_model) for _ in range(n_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(d_model, n_heads, 4 * d_model) for _ in range(n_layers)])
        self.fc_out = nn.Linear(d_model, trg_vocab_size)

    def make_src_mask(self, src):
        return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(2)

    def make_trg_mask(self, trg):
        N, trg_len = trg.shape
        trg_pad_mask = (trg != self.src_pad_idx).unsqueeze(1).unsqueeze(2)
        trg_sub_mask = torch.tril(torch.ones((trg_len, trg_len), device=trg.device)).bool()
        return trg_pad_mask & trg_sub_mask

    def forward(self, src, trg):
        src_mask = self.make_src_mask(src)
        trg_mask = self.make_trg_mask(trg)
        x = self.src_emb(src) + self.src_pos(torch.arange(src.size(1), device=src.device))
        for layer in self.encoder:
            x = layer(x, src_mask)
        y = self.trg_emb(trg) + self.trg_pos(torch.arange(trg.size(1), device=trg.device))
        for layer in self.decoder:
            y = layer(y, x, trg_mask, src_mask)
        return self.fc_out(y)


if __name__ == "__main__":
    model = Transformer(src_vocab_size=10, trg_vocab_size=12, src_pad_idx=0, trg_pad_idx=1)
    src = torch.tensor([[5, 6, 4, 3, 9, 2, 0], [8, 7, 3, 4, 2, 0, 0]])
    trg = torch.tensor([[7, 4, 3, 5, 9, 2, 1], [5, 6, 2, 4, 1, 1, 1]])
    print(model(src, trg[:, :-1]).shape)
