import torch
import torch.nn as nn


class MultiHeadSelfAttention(nn.Module):
    """Heads are processed one after another, x: (batch, tokens, features)."""

    def __init__(self, features, heads):
        super().__init__()
        self.size = features // heads
        self.q = nn.ModuleList([nn.Linear(features, self.size) for _ in range(heads)])
        self.k = nn.ModuleList([nn.Linear(features, self.size) for _ in range(heads)])
        self.v = nn.ModuleList([nn.Linear(features, self.size) for _ in range(heads)])
        self.join = nn.Linear(features, features)
        self.softmax = nn.Softmax(dim=0)

    def forward(self, x):
        results = []
        for q, k, v in zip(self.q, self.k, self.v):
            score = q(x) @ k(x).transpose(-2, -1) / self.size ** 0.5
            results.append(self.softmax(score) @ v(x))
        return self.join(torch.cat(results, dim=-1))


if __name__ == "__main__":
    print(MultiHeadSelfAttention(24, 3)(torch.randn(5, 8, 24)).shape)
