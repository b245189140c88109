import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description="train the translation model")
parser.add_argument("--d_model", type=int, default=512)
parser.add_argument("--h", type=int, default=8)
parser.add_argument("--lr", type=float, default=1e-4)
args = parser.parse_args()


class LayerNormalization(nn.Module):
    """torch.std is the unbiased one, and eps is added to it, not under the root"""

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.alpha, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (x.std(-1, keepdim=True) + self.eps) * self.alpha + self.bias


class FeedForwardBlock(nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.p = dropout

    def forward(self, x):
        hidden = nn.functional.relu(self.linear_1(x))
        return self.linear_2(nn.functional.dropout(hidden, self.p, self.training))


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, seq_len: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        table = torch.empty(seq_len, d_model)
        for i in range(0, d_model, 2):
            angle = torch.arange(seq_len) * math.exp(-math.log(10000.0) * i / d_model)
            table[:, i], table[:, i + 1] = angle.sin(), angle.cos()
        self.register_buffer("pe", table[None])

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.shape[1]])


class MultiHeadAttentionBlock(nn.Module):
    def __init__(self, d_model: int, h: int, dropout: float) -> None:
        super().__init__()
        assert d_model % h == 0, "h has to divide d_model"
        self.h, self.d_k = h, d_model // h
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.attention_scores = None

    @staticmethod
    def attention(query, key, value, mask, dropout: nn.Dropout):
        s = query @ key.mT / math.sqrt(query.shape[-1])
        if mask is not None:
            s.masked_fill_(mask == 0, -1e9)
        s = s.softmax(-1)
        if dropout is not None:
            s = dropout(s)
        return s @ value, s

    def forward(self, q, k, v, mask):
        per_head = [
            w(t).reshape(t.shape[0], t.shape[1], self.h, self.d_k).transpose(1, 2)
            for w, t in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        ]
        x, self.attention_scores = self.attention(*per_head, mask, self.dropout)
        return self.w_o(x.transpose(1, 2).flatten(start_dim=2))


class ResidualConnection(nn.Module):
    def __init__(self, features: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = LayerNormalization(features), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderBlock(nn.Module):
    def __init__(self, features, self_attention_block, feed_forward_block, dropout) -> None:
        super().__init__()
        self.self_attention_block = self_attention_block
        self.feed_forward_block = feed_forward_block
        self.residual_connections = nn.ModuleList(ResidualConnection(features, dropout) for _ in range(2))

    def forward(self, x, src_mask):
        attend, think = self.residual_connections
        x = attend(x, lambda y: self.self_attention_block(y, y, y, src_mask))
        return think(x, self.feed_forward_block)


class DecoderBlock(nn.Module):
    def __init__(self, features, self_attention_block, cross_attention_block, feed_forward_block, dropout) -> None:
        super().__init__()
        self.self_attention_block = self_attention_block
        self.cross_attention_block = cross_attention_block
        self.feed_forward_block = feed_forward_block
        self.residual_connections = nn.ModuleList(ResidualConnection(features, dropout) for _ in range(3))

    def forward(self, x, encoder_output, src_mask, tgt_mask):
        own, cross, think = self.residual_connections
        x = own(x, lambda y: self.self_attention_block(y, y, y, tgt_mask))
        x = cross(x, lambda y: self.cross_attention_block(y, encoder_output, encoder_output, src_mask))
        return think(x, self.feed_forward_block)


def train(args):
    attention = MultiHeadAttentionBlock(args.d_model, args.h, 0.1)
    model = EncoderBlock(args.d_model, attention, FeedForwardBlock(args.d_model, 2048, 0.1), 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for _ in range(1000):
        loss = model(torch.randn(8, 32, args.d_model), None).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(args)
