import numpy as np
import torch
import torch.nn as nn


class AttentionHead(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.d_model = d_model
        self.q = nn.Linear(d_model, d_head)
        self.k = nn.Linear(d_model, d_head)
        self.v = nn.Linear(d_model, d_head)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.q(query), self.k(key), self.v(value)
        scores = q.bmm(k.transpose(1, 2)) / np.sqrt(self.d_model)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -float("inf"))
        return torch.softmax(scores, dim=-1).bmm(v)


class MultiHeadAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        d_model, n = config["hidden_size"], config["num_heads"]
        self.heads = nn.ModuleList([AttentionHead(d_model, d_model // n) for _ in range(n)])
        self.output_linear = nn.Linear(d_model, d_model)

    def forward(self, hidden_state, mask=None):
        x = torch.cat([h(hidden_state, hidden_state, hidden_state, mask) for h in self.heads], dim=-1)
        return self.output_linear(x)


if __name__ == "__main__":
    mha = MultiHeadAttention({"hidden_size": 48, "num_heads": 6})
    print(mha(torch.randn(2, 5, 48)).shape)
