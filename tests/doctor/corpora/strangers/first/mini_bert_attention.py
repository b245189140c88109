import math
import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    """attention_mask: (B, N) 1 = keep, 0 = pad"""

    def __init__(self, hidden_size=48, num_attention_heads=4):
        super().__init__()
        self.h = num_attention_heads
        self.d = hidden_size // num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        B, N, _ = hidden_states.shape
        q = self.query(hidden_states).view(B, N, self.h, self.d).transpose(1, 2)
        k = self.key(hidden_states).view(B, N, self.h, self.d).transpose(1, 2)
        v = self.value(hidden_states).view(B, N, self.h, self.d).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d)
        if attention_mask is not None:
            scores = scores + attention_mask[:, None, None, :]
        probs = scores.softmax(dim=-1)
        context = torch.matmul(probs, v).transpose(1, 2).reshape(B, N, -1)
        return self.dense(context)


if __name__ == "__main__":
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    print(SelfAttention()(torch.randn(2, 5, 48), mask).shape)
