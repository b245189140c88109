# coding: utf-8
"""BERT layers, short version"""

from types import SimpleNamespace

import torch
from torch import nn

BERT_TINY = SimpleNamespace(
    hidden_size=128,
    num_attention_heads=2,
    intermediate_size=512,
    attention_probs_dropout_prob=0.1,
    hidden_dropout_prob=0.1,
    layer_norm_eps=1e-12,
    max_position_embeddings=512,
    type_vocab_size=2,
    vocab_size=30522,
)


def extended_attention_mask(attention_mask, dtype):
    """(B, N) of ones and zeros -> additive (B, 1, 1, N)"""
    return (attention_mask[:, None, None, :] == 0).to(dtype) * torch.finfo(dtype).min


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False):
        q, k, v = (
            f(hidden_states).unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3)
            for f in (self.query, self.key, self.value)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) / q.size(-1) ** 0.5
        if attention_mask is not None:
            scores = scores + attention_mask
        probs = self.dropout(scores.softmax(dim=-1))
        if head_mask is not None:
            probs = probs * head_mask
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).flatten(2)
        return (context, probs) if output_attentions else (context,)


class AddAndNorm(nn.Module):
    def __init__(self, width, config):
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x, residual):
        return self.LayerNorm(residual + self.dropout(self.dense(x)))


class BertAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self, self.output = BertSelfAttention(config), AddAndNorm(config.hidden_size, config)

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False):
        context, *rest = self.self(hidden_states, attention_mask, head_mask, output_attentions)
        return (self.output(context, hidden_states), *rest)


class BertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = AddAndNorm(config.intermediate_size, config)

    def forward(self, hidden_states, attention_mask=None):
        x = self.attention(hidden_states, attention_mask)[0]
        return self.output(nn.functional.gelu(self.intermediate(x)), x)


class BertEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, input_ids, token_type_ids=None):
        kinds = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        places = torch.arange(input_ids.size(1), device=input_ids.device)
        return self.LayerNorm(
            self.word_embeddings(input_ids) + self.position_embeddings(places) + self.token_type_embeddings(kinds)
        )


if __name__ == "__main__":
    layer = BertLayer(BERT_TINY)
    print(layer(torch.randn(2, 7, 128), extended_attention_mask(torch.ones(2, 7), torch.float32)).shape)
