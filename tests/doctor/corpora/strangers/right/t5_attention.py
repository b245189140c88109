import math

import torch
from torch import nn


class T5Attention(nn.Module):
    """T5 style: scores are NOT divided by sqrt(d_kv); the initialisation of q takes care of it."""

    def __init__(self, d_model=40, d_kv=8, num_heads=5, is_decoder=False, has_relative_attention_bias=True,
                 num_buckets=32, max_distance=128, dropout_rate=0.1):
        super().__init__()
        self.is_decoder = is_decoder
        self.has_relative_attention_bias = has_relative_attention_bias
        self.relative_attention_num_buckets = num_buckets
        self.relative_attention_max_distance = max_distance
        self.n_heads = num_heads
        self.key_value_proj_dim = d_kv
        self.inner_dim = num_heads * d_kv
        self.q = nn.Linear(d_model, self.inner_dim, bias=False)
        self.k = nn.Linear(d_model, self.inner_dim, bias=False)
        self.v = nn.Linear(d_model, self.inner_dim, bias=False)
        self.o = nn.Linear(self.inner_dim, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        self.dropout = dropout_rate
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)

    @staticmethod
    def _relative_position_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
        relative_buckets = 0
        if bidirectional:
            num_buckets //= 2
            relative_buckets += (relative_position > 0).to(torch.long) * num_buckets
            relative_position = torch.abs(relative_position)
        else:
            relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
        max_exact = num_buckets // 2
        is_small = relative_position < max_exact
        large = max_exact + (torch.log(relative_position.float() / max_exact) / math.log(max_distance / max_exact)
                             * (num_buckets - max_exact)).to(torch.long)
        large = torch.min(large, torch.full_like(large, num_buckets - 1))
        return relative_buckets + torch.where(is_small, relative_position, large)

    def compute_bias(self, query_length, key_length):
        context_position = torch.arange(query_length)[:, None]
        memory_position = torch.arange(key_length)[None, :]
        bucket = self._relative_position_bucket(memory_position - context_position, not self.is_decoder,
                                                self.relative_attention_num_buckets,
                                                self.relative_attention_max_distance)
        return self.relative_attention_bias(bucket).permute(2, 0, 1).unsqueeze(0)  # (1, h, q, k)

    def forward(self, hidden_states, mask=None, key_value_states=None, position_bias=None):
        B, n, _ = hidden_states.shape
        src = hidden_states if key_value_states is None else key_value_states

        def shape(s):
            return s.view(B, -1, self.n_heads, self.key_value_proj_dim).transpose(1, 2)

        q, k, v = shape(self.q(hidden_states)), shape(self.k(src)), shape(self.v(src))
        scores = torch.matmul(q, k.transpose(3, 2))  # no scaling, see above
        if position_bias is None:
            if self.has_relative_attention_bias:
                position_bias = self.compute_bias(n, k.shape[2])
            else:
                position_bias = torch.zeros(1, self.n_heads, n, k.shape[2]).to(scores)
            if mask is not None:
                position_bias = position_bias + mask  # additive (B, 1, n, m)
        scores = scores + position_bias
        attn = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        attn = nn.functional.dropout(attn, p=self.dropout, training=self.training)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, -1, self.inner_dim)
        return self.o(out), position_bias
