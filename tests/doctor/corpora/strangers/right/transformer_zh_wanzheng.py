# 一个最小的 Transformer 翻译模型（德语 -> 英语玩具例子）
import numpy as np
import torch
import torch.nn as nn

d_model, d_ff, d_k, d_v, n_layers, n_heads = 48, 96, 16, 16, 2, 3
src_vocab_size, tgt_vocab_size, src_len, tgt_len = 12, 14, 10, 10


def get_attn_pad_mask(seq_q, seq_k):
    # 0 是 PAD；返回 True 的位置需要被屏蔽
    b, len_q = seq_q.size()
    b, len_k = seq_k.size()
    return seq_k.eq(0).unsqueeze(1).expand(b, len_q, len_k)


def get_attn_subsequent_mask(seq):
    n = seq.size(1)
    return torch.from_numpy(np.triu(np.ones((seq.size(0), n, n)), k=1)).bool()


class ScaledDotProductAttention(nn.Module):
    def forward(self, Q, K, V, attn_mask):
        scores = torch.matmul(Q, K.transpose(-1, -2)) / np.sqrt(d_k)
        scores.masked_fill_(attn_mask, -1e9)
        attn = nn.Softmax(dim=-1)(scores)
        return torch.matmul(attn, V), attn


class MultiHeadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.W_Q = nn.Linear(d_model, d_k * n_heads)
        self.W_K = nn.Linear(d_model, d_k * n_heads)
        self.W_V = nn.Linear(d_model, d_v * n_heads)
        self.linear = nn.Linear(n_heads * d_v, d_model)
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, Q, K, V, attn_mask):
        residual, b = Q, Q.size(0)
        q_s = self.W_Q(Q).view(b, -1, n_heads, d_k).transpose(1, 2)
        k_s = self.W_K(K).view(b, -1, n_heads, d_k).transpose(1, 2)
        v_s = self.W_V(V).view(b, -1, n_heads, d_v).transpose(1, 2)
        attn_mask = attn_mask.unsqueeze(1).repeat(1, n_heads, 1, 1)  # 每个头共用同一掩码
        context, attn = ScaledDotProductAttention()(q_s, k_s, v_s, attn_mask)
        context = context.transpose(1, 2).contiguous().view(b, -1, n_heads * d_v)
        return self.layer_norm(self.linear(context) + residual), attn


class FFN(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm(x + self.net(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(src_vocab_size, d_model), nn.Embedding(tgt_vocab_size, d_model)
        self.src_pos, self.tgt_pos = nn.Embedding(src_len, d_model), nn.Embedding(tgt_len, d_model)
        self.enc = nn.ModuleList([nn.ModuleList([MultiHeadAttention(), FFN()]) for _ in range(n_layers)])
        self.dec = nn.ModuleList(
            [nn.ModuleList([MultiHeadAttention(), MultiHeadAttention(), FFN()]) for _ in range(n_layers)])
        self.projection = nn.Linear(d_model, tgt_vocab_size, bias=False)

    def forward(self, enc_inputs, dec_inputs):
        x = self.src_emb(enc_inputs) + self.src_pos(torch.arange(enc_inputs.size(1)))
        pad = get_attn_pad_mask(enc_inputs, enc_inputs)
        for attn, ffn in self.enc:
            x = ffn(attn(x, x, x, pad)[0])
        y = self.tgt_emb(dec_inputs) + self.tgt_pos(torch.arange(dec_inputs.size(1)))
        self_mask = get_attn_pad_mask(dec_inputs, dec_inputs) | get_attn_subsequent_mask(dec_inputs)
        cross_mask = get_attn_pad_mask(dec_inputs, enc_inputs)
        for self_attn, cross_attn, ffn in self.dec:
            y = self_attn(y, y, y, self_mask)[0]
            y = ffn(cross_attn(y, x, x, cross_mask)[0])
        return self.projection(y)
