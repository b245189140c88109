# toy translation, the sizes are set at the bottom of the file
import math

import numpy as np
import torch
import torch.nn as nn


def get_attn_pad_mask(seq_q, seq_k):
    """True at padding (id 0), one row per query"""
    return seq_k.eq(0)[:, None, :].repeat(1, seq_q.size(1), 1)


class PositionalEncoding(nn.Module):
    """sequence first: (len, batch, d_model)"""

    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super(PositionalEncoding, self).__init__()
        self.drop = nn.Dropout(dropout)
        rates = np.exp(np.arange(0, d_model, 2) * -math.log(10000) / d_model)
        table = np.zeros((max_len, 1, d_model), dtype=np.float32)
        table[:, 0, 0::2] = np.sin(np.arange(max_len)[:, None] * rates)
        table[:, 0, 1::2] = np.cos(np.arange(max_len)[:, None] * rates)
        self.register_buffer("pe", torch.from_numpy(table))

    def forward(self, x):
        return self.drop(x + self.pe[: len(x)])


class ScaledDotProductAttention(nn.Module):
    def forward(self, Q, K, V, attn_mask):
        scores = Q @ K.transpose(-1, -2) / np.sqrt(d_k)
        scores.masked_fill_(attn_mask, -1e9)
        attn = nn.Softmax(dim=-1)(scores)
        return attn @ V, attn


class MultiHeadAttention(nn.Module):
    def __init__(self):
        super(MultiHeadAttention, self).__init__()
        self.W_Q = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.W_K = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.W_V = nn.Linear(d_model, n_heads * d_v, bias=False)
        self.fc = nn.Linear(n_heads * d_v, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, input_Q, input_K, input_V, attn_mask):
        batch = len(input_Q)
        Q = self.W_Q(input_Q).view(batch, -1, n_heads, d_k).transpose(1, 2)
        K = self.W_K(input_K).view(batch, -1, n_heads, d_k).transpose(1, 2)
        V = self.W_V(input_V).view(batch, -1, n_heads, d_v).transpose(1, 2)
        attn_mask = torch.stack([attn_mask] * n_heads, dim=1)
        context, attn = ScaledDotProductAttention()(Q, K, V, attn_mask)
        joined = context.transpose(1, 2).reshape(batch, -1, n_heads * d_v)
        return self.layer_norm(input_Q + self.fc(joined)), attn


class FeedForwardNet(nn.Module):
    def __init__(self):
        super(FeedForwardNet, self).__init__()
        up, down = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)
        self.fc = nn.Sequential(up, nn.ReLU(), down)
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.layer_norm(x + self.fc(x))


class EncoderLayer(nn.Module):
    def __init__(self):
        super(EncoderLayer, self).__init__()
        self.enc_self_attn = MultiHeadAttention()
        self.pos_ffn = FeedForwardNet()

    def forward(self, enc_inputs, enc_self_attn_mask):
        out, attn = self.enc_self_attn(enc_inputs, enc_inputs, enc_inputs, enc_self_attn_mask)
        return self.pos_ffn(out), attn


class DecoderLayer(nn.Module):
    def __init__(self):
        super(DecoderLayer, self).__init__()
        self.dec_self_attn = MultiHeadAttention()
        self.dec_enc_attn = MultiHeadAttention()
        self.pos_ffn = FeedForwardNet()

    def forward(self, dec_inputs, enc_outputs, dec_self_attn_mask, dec_enc_attn_mask):
        out, own = self.dec_self_attn(dec_inputs, dec_inputs, dec_inputs, dec_self_attn_mask)
        out, other = self.dec_enc_attn(out, enc_outputs, enc_outputs, dec_enc_attn_mask)
        return self.pos_ffn(out), own, other


class Encoder(nn.Module):
    def __init__(self):
        super(Encoder, self).__init__()
        self.src_emb = nn.Embedding(src_vocab_size, d_model)
        self.pos_emb = PositionalEncoding(d_model)
        self.layers = nn.ModuleList([EncoderLayer() for _ in range(n_layers)])

    def forward(self, ids):
        x = self.pos_emb(self.src_emb(ids).transpose(0, 1)).transpose(0, 1)
        mask, maps = get_attn_pad_mask(ids, ids), []
        for layer in self.layers:
            x, attn = layer(x, mask)
            maps.append(attn)
        return x, maps


if __name__ == "__main__":
    words = {w: i for i, w in enumerate("<pad> je veux un chat chien noir".split())}
    src_vocab_size = len(words)
    d_model = 512
    d_ff = 2048
    d_k = d_v = 64
    n_layers = 6
    n_heads = 8
    model = Encoder()
    ids = torch.tensor([[words[w] for w in s.split()] for s in ("je veux un chat noir", "je veux un chien <pad>")])
    print(model(ids)[0].shape)
