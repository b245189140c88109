import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    hidden_size: int = 64
    num_attention_heads: int = 8
    num_key_value_heads: int = 4


class GroupedQueryAttention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.head_dim = config.hidden_size // config.num_attention_heads
        kv = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None):
        bsz, q_len, _ = hidden_states.shape
        c = self.config
        q = self.q_proj(hidden_states).view(bsz, q_len, c.num_attention_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, q_len, c.num_key_value_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, q_len, c.num_key_value_heads, self.head_dim).transpose(1, 2)
        n_rep = c.num_attention_heads // c.num_key_value_heads
        k = k[:, :, None].expand(-1, -1, n_rep, -1, -1).flatten(1, 2)
        v = v[:, :, None].expand(-1, -1, n_rep, -1, -1).flatten(1, 2)
        attn = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(c.hidden_size)
        if attention_mask is not None:  # additive, (bsz, 1, q_len, kv_len)
            attn = attn + attention_mask
        attn = nn.functional.softmax(attn, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(attn, v).transpose(1, 2).reshape(bsz, q_len, -1))


if __name__ == "__main__":
    print(GroupedQueryAttention(Config())(torch.randn(2, 7, 64)).shape)
