import argparse
import math

import torch
import torch.nn as nn


def get_args(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--d-model", type=int, default=40)
    p.add_argument("--n-head", type=int, default=5)
    p.add_argument("--ffn", type=int, default=80)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--vocab", type=int, default=30)
    p.add_argument("--pad-id", type=int, default=0)
    p.add_argument("--dropout", type=float, default=0.1)
    return p.parse_args(argv)


class MultiHeadAttention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.n_head, self.d_head = args.n_head, args.d_model // args.n_head
        self.query = nn.Linear(args.d_model, args.d_model)
        self.key = nn.Linear(args.d_model, args.d_model)
        self.value = nn.Linear(args.d_model, args.d_model)
        self.out = nn.Linear(args.d_model, args.d_model)
        self.dropout = nn.Dropout(args.dropout)

    def forward(self, x, pad_mask=None):
        B, T, C = x.shape
        q = self.query(x).view(B, T, self.n_head, self.d_head).transpose(1, 2) / math.sqrt(self.d_head)
        k = self.key(x).view(B, T, self.n_head, self.d_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, self.d_head).transpose(1, 2)
        score = q @ k.transpose(-1, -2)
        if pad_mask is not None:  # (B, T), True = padding
            score = score.masked_fill(pad_mask.view(B, 1, 1, T), float("-inf"))
        prob = self.dropout(score.softmax(-1))
        return self.out((prob @ v).transpose(1, 2).reshape(B, T, C))


class EncoderLayer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.LayerNorm(args.d_model), nn.LayerNorm(args.d_model)
        self.attn = MultiHeadAttention(args)
        self.ffn = nn.Sequential(nn.Linear(args.d_model, args.ffn), nn.GELU(), nn.Linear(args.ffn, args.d_model))
        self.drop = nn.Dropout(args.dropout)

    def forward(self, x, pad_mask=None):
        x = x + self.drop(self.attn(self.attn_norm(x), pad_mask))
        return x + self.drop(self.ffn(self.ffn_norm(x)))


class Encoder(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.pad_id = args.pad_id
        self.emb = nn.Embedding(args.vocab, args.d_model, padding_idx=args.pad_id)
        self.layers = nn.ModuleList(EncoderLayer(args) for _ in range(args.layers))

    def forward(self, ids):
        h, pad = self.emb(ids), ids == self.pad_id
        for layer in self.layers:
            h = layer(h, pad)
        return h


if __name__ == "__main__":
    args = get_args()
    print(Encoder(args)(torch.tensor([[4, 5, 6, 0], [7, 8, 9, 3]])).shape)
