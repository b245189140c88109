# qkv packed as (head, 3, dim) like the megatron checkpoints
import math
import torch
from torch import nn


class ParallelSelfAttention(nn.Module):
    def __init__(self, hidden_size: int, num_attention_heads: int, attention_dropout: float = 0.0):
        super().__init__()
        self.hidden_size = hidden_size
        self.np = num_attention_heads
        self.hn = hidden_size // num_attention_heads
        self.norm_factor = math.sqrt(self.hn)
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.attention_dropout = nn.Dropout(attention_dropout)

    def forward(self, hidden_states, attention_mask=None):
        # hidden_states: [b, s, h], attention_mask: bool, True = do not look
        b, s, _ = hidden_states.shape
        mixed = self.query_key_value(hidden_states)
        mixed = mixed.view(b, s, self.np, 3 * self.hn)
        q, k, v = torch.split(mixed, self.hn, dim=-1)  # each [b, s, np, hn]
        q, k, v = (t.permute(0, 2, 1, 3) for t in (q, k, v))

        scores = torch.matmul(q, k.transpose(2, 3)) / self.norm_factor
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask, torch.finfo(scores.dtype).min)
        probs = self.attention_dropout(torch.softmax(scores, dim=-1))

        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return self.dense(context.view(b, s, self.hidden_size))
