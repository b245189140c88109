import torch
from torch import nn
import torch.nn.functional as F


class QueryAttention(nn.Module):
    def __init__(self, hidden_size: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden):
        b, n, c = hidden.shape
        query_states = self.query(hidden)
        key_states = self.key(hidden)
        value_states = self.value(hidden)
        new_shape = (b, n, self.heads, c // self.heads)
        query_states = key_states.view(new_shape).transpose(1, 2)
        value_states = value_states.view(new_shape).transpose(1, 2)
        key_states = key_states.view(new_shape).transpose(1, 2)
        ctx = F.scaled_dot_product_attention(query_states, key_states, value_states)
        return self.out(ctx.transpose(1, 2).reshape(b, n, c))


if __name__ == "__main__":
    print(QueryAttention(32, 4)(torch.randn(2, 6, 32)).shape)
