"""Attention with time first, as seq2seq toolkits had it."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MultiheadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, kdim=None, vdim=None, dropout=0.0, bias=True):
        super().__init__()
        assert embed_dim % num_heads == 0
        self.num_heads, self.dropout = num_heads, dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(kdim or embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(vdim or embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True,
        attn_mask: Optional[Tensor] = None,
    ):
        """query (T, B, C), key and value (S, B, C). key_padding_mask (B, S), 1 = padding. attn_mask (T, S), added."""
        t, b, c = query.shape
        s, d = key.shape[0], c // self.num_heads
        # (T, B, H * D) -> (B * H, T, D): batch and heads are neighbours already
        q = (self.q_proj(query) * d**-0.5).reshape(t, b * self.num_heads, d).transpose(0, 1)
        k = self.k_proj(key).reshape(s, b * self.num_heads, d).transpose(0, 1)
        v = self.v_proj(value).reshape(s, b * self.num_heads, d).transpose(0, 1)
        logits = q.bmm(k.transpose(1, 2))
        if attn_mask is not None:
            logits = logits + attn_mask
        if key_padding_mask is not None:
            padded = key_padding_mask.bool().repeat_interleave(self.num_heads, dim=0)
            logits = logits.masked_fill(padded[:, None, :], float("-inf"))
        probs = F.dropout(logits.softmax(-1), p=self.dropout, training=self.training)
        out = self.out_proj(probs.bmm(v).transpose(0, 1).reshape(t, b, c))
        return out, probs.view(b, -1, t, s).mean(1) if need_weights else None


class TransformerEncoderLayer(nn.Module):
    def __init__(self, args):
        super().__init__()
        d = args.encoder_embed_dim
        self.self_attn = MultiheadAttention(d, args.encoder_attention_heads, dropout=args.attention_dropout)
        self.fc1, self.fc2 = nn.Linear(d, args.encoder_ffn_embed_dim), nn.Linear(args.encoder_ffn_embed_dim, d)
        self.self_attn_layer_norm, self.final_layer_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.drop, self.normalize_before = nn.Dropout(args.dropout), args.encoder_normalize_before

    def around(self, x, norm, f):
        if self.normalize_before:
            return x + self.drop(f(norm(x)))
        return norm(x + self.drop(f(x)))

    def forward(self, x, encoder_padding_mask=None):
        x = self.around(x, self.self_attn_layer_norm, lambda y: self.self_attn(y, y, y, encoder_padding_mask)[0])
        return self.around(x, self.final_layer_norm, lambda y: self.fc2(torch.relu(self.fc1(y))))
