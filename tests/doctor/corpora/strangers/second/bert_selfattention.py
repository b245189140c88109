"""BERT self-attention + output, reduced to the parts I need."""
import math
import torch
from torch import nn


class BertConfig:
    hidden_size = 96
    num_attention_heads = 6
    attention_probs_dropout_prob = 0.1
    layer_norm_eps = 1e-12


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query = nn.Linear(config.hidden_size, self.all_head_size)
        self.key = nn.Linear(config.hidden_size, self.all_head_size)
        self.value = nn.Linear(config.hidden_size, self.all_head_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def transpose_for_scores(self, x):
        return x.view(x.size(0), 1, x.size(1), self.all_head_size)

    def forward(self, hidden_states, attention_mask=None):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(query_layer.size(-1))
        if attention_mask is not None:   # (B, 1, 1, N), 0 for keep and -inf for padding
            attention_scores = attention_scores + attention_mask
        probs = self.dropout(attention_scores.softmax(dim=-1))
        context = torch.matmul(probs, value_layer).permute(0, 2, 1, 3).contiguous()
        context = context.view(hidden_states.size(0), -1, self.all_head_size)
        return self.LayerNorm(self.dense(context) + hidden_states)


if __name__ == "__main__":
    print(BertSelfAttention(BertConfig()).eval()(torch.randn(2, 8, 96)).shape)
