# encoder-decoder for the end of the course: random data, just to see the loss go down
import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super(MultiHeadAttention, self).__init__()
        if d_model % num_heads:
            raise ValueError("num_heads must divide d_model")
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = [nn.Linear(d_model, d_model) for _ in "qkvo"]

    def scaled_dot_product_attention(self, Q, K, V, mask=None):
        logits = Q.matmul(K.transpose(2, 3)).div(self.d_k**0.5)
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -1e9)
        return logits.softmax(3).matmul(V)

    def split_heads(self, x):
        return torch.stack(x.split(self.d_k, dim=2), dim=1)

    def combine_heads(self, x):
        return torch.cat(x.unbind(1), dim=2)

    def forward(self, Q, K, V, mask=None):
        heads = self.scaled_dot_product_attention(
            self.split_heads(self.W_q(Q)), self.split_heads(self.W_k(K)), self.split_heads(self.W_v(V)), mask
        )
        return self.W_o(self.combine_heads(heads))


class FeedForward(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(d_ff, d_model)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_seq_length):
        super(PositionalEncoding, self).__init__()
        t = torch.arange(max_seq_length).float()
        w = 10000 ** (-torch.arange(0, d_model, 2).float() / d_model)
        angles = t.outer(w)
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1))

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super(EncoderLayer, self).__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.self_attn(x, x, x, mask)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super(DecoderLayer, self).__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.cross_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, enc_output, src_mask, tgt_mask):
        x = self.norm1(x + self.dropout(self.self_attn(x, x, x, tgt_mask)))
        x = self.norm2(x + self.dropout(self.cross_attn(x, enc_output, enc_output, src_mask)))
        return self.norm3(x + self.dropout(self.feed_forward(x)))


class Transformer(nn.Module):
    PAD = 0

    def __init__(self, src_vocab, tgt_vocab, d_model, num_heads, num_layers, d_ff, max_len, dropout):
        super().__init__()
        self.encoder_embedding = nn.Embedding(src_vocab, d_model)
        self.decoder_embedding = nn.Embedding(tgt_vocab, d_model)
        self.pos = PositionalEncoding(d_model, max_len)
        sizes = (d_model, num_heads, d_ff, dropout)
        self.encoder_layers = nn.ModuleList(EncoderLayer(*sizes) for _ in range(num_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(*sizes) for _ in range(num_layers))
        self.fc = nn.Linear(d_model, tgt_vocab)

    def forward(self, src, tgt):
        n = tgt.size(1)
        src_mask = src.ne(self.PAD)[:, None, None, :]
        tgt_mask = tgt.ne(self.PAD)[:, None, None, :] & torch.ones(n, n, dtype=torch.bool, device=tgt.device).tril()
        memory = self.pos(self.encoder_embedding(src))
        for layer in self.encoder_layers:
            memory = layer(memory, src_mask)
        x = self.pos(self.decoder_embedding(tgt))
        for layer in self.decoder_layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.fc(x)


if __name__ == "__main__":
    model = Transformer(900, 800, 128, 8, 3, 512, 60, 0.1)
    opt = torch.optim.Adam(model.parameters(), 3e-4)
    src, tgt = torch.randint(1, 900, (16, 30)), torch.randint(1, 800, (16, 25))
    for step in range(50):
        loss = nn.functional.cross_entropy(model(src, tgt[:, :-1]).transpose(1, 2), tgt[:, 1:], ignore_index=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item(), math.exp(loss.item()))
