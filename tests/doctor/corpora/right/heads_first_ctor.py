"""Layers of the translation model. Heads come first in the constructor; attention adds the residual and norms itself."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledDotProductAttention(nn.Module):
    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature, self.dropout = temperature, nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        logits = (q / self.temperature).matmul(k.transpose(-1, -2))
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -1e9)
        attn = self.dropout(logits.softmax(-1))
        return attn.matmul(v), attn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
        self.fc = nn.Linear(n_head * d_v, d_model, bias=False)
        self.attention = ScaledDotProductAttention(np.power(d_k, 0.5))
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)
        self.dropout = nn.Dropout(dropout)

    def heads(self, x):
        return x.unflatten(2, (self.n_head, -1)).permute(0, 2, 1, 3)

    def forward(self, q, k, v, mask=None):
        if mask is not None:
            mask = mask[:, None]
        out, attn = self.attention(self.heads(self.w_qs(q)), self.heads(self.w_ks(k)), self.heads(self.w_vs(v)), mask)
        out = self.dropout(self.fc(out.permute(0, 2, 1, 3).flatten(2)))
        out += q
        return self.layer_norm(out), attn


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_in, d_hid, dropout=0.1):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_in, d_hid), nn.Linear(d_hid, d_in)
        self.layer_norm = nn.LayerNorm(d_in, eps=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.layer_norm(self.dropout(self.w_2(F.relu(self.w_1(x)))) + x)


class DecoderLayer(nn.Module):
    def __init__(self, d_model, d_inner, n_head, d_k, d_v, dropout=0.1):
        super().__init__()
        self.slf_attn = MultiHeadAttention(n_head, d_model, d_k, d_v, dropout)
        self.enc_attn = MultiHeadAttention(n_head, d_model, d_k, d_v, dropout)
        self.pos_ffn = PositionwiseFeedForward(d_model, d_inner, dropout)

    def forward(self, dec_input, enc_output, slf_attn_mask=None, dec_enc_attn_mask=None):
        x, own = self.slf_attn(dec_input, dec_input, dec_input, slf_attn_mask)
        x, other = self.enc_attn(x, enc_output, enc_output, dec_enc_attn_mask)
        return self.pos_ffn(x), own, other


class PositionalEncoding(nn.Module):
    def __init__(self, d_hid, n_position=200):
        super().__init__()
        j = np.arange(d_hid)
        angles = np.arange(n_position)[:, None] / 10000 ** (2 * (j // 2) / d_hid)
        table = np.where(j % 2 == 0, np.sin(angles), np.cos(angles))
        self.register_buffer("pos_table", torch.tensor(table, dtype=torch.float32))

    def forward(self, x):
        return x + self.pos_table[: x.size(1)].clone().detach()
