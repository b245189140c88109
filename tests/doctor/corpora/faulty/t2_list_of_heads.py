import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionHead(nn.Module):
    def __init__(self, embed_dim, head_dim):
        super().__init__()
        self.q = nn.Linear(embed_dim, head_dim)
        self.k = nn.Linear(embed_dim, head_dim)
        self.v = nn.Linear(embed_dim, head_dim)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = torch.bmm(q, k.transpose(1, 2)) / k.size(-1) ** 0.5
        return torch.bmm(F.softmax(scores, dim=-1), v)


class MultiHeadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        head_dim = embed_dim // num_heads
        self.heads = [AttentionHead(embed_dim, head_dim) for _ in range(num_heads)]
        self.output_linear = nn.Linear(embed_dim, embed_dim)

    def forward(self, hidden_state):
        x = torch.cat([h(hidden_state) for h in self.heads], dim=-1)
        return self.output_linear(x)


if __name__ == "__main__":
    mha = MultiHeadAttention(96, 12)
    optimizer = torch.optim.Adam(mha.parameters(), lr=1e-3)
    print(mha(torch.randn(1, 5, 96)).shape)
