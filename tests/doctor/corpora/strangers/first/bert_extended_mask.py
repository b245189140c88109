import math
import torch
from torch import nn


class BertSelfAttention(nn.Module):
    def __init__(self, hidden_size=64, num_attention_heads=4):
        super().__init__()
        self.heads = num_attention_heads
        self.size = hidden_size // num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)

    def _shape(self, t):
        return t.view(t.size(0), t.size(1), self.heads, self.size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask):
        """attention_mask: (batch, seq) of 1 (token) and 0 (padding)"""
        extended = attention_mask[:, None, None, :].to(hidden_states.dtype)
        extended = (1.0 - extended) * -10000.0
        q = self._shape(self.query(hidden_states))
        k = self._shape(self.key(hidden_states))
        v = self._shape(self.value(hidden_states))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.size)
        probs = nn.Softmax(dim=-1)(scores + extended)
        context = (probs @ v).permute(0, 2, 1, 3).contiguous()
        return context.view(context.size(0), context.size(1), -1)


if __name__ == "__main__":
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    print(BertSelfAttention()(torch.randn(2, 4, 64), mask).shape)
