"""Multihead attention block for point sets (Set Transformer style)."""
import torch
import torch.nn as nn


class SetAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)

    def forward(self, Q, K, V):
        Q, K, V = self.q(Q), self.k(K), self.v(V)
        d = Q.size(-1) // self.h
        q = torch.stack(Q.split(d, -1), 1)  # b h n d
        k = torch.stack(K.split(d, -1), 1)
        v = torch.stack(K.split(d, -1), 1)
        A = torch.softmax(q @ k.transpose(-1, -2) / d ** 0.5, -1)
        return self.o(torch.cat((A @ v).unbind(1), -1))


if __name__ == "__main__":
    S = torch.randn(2, 12, 32)
    I = torch.randn(2, 4, 32)
    print(SetAttention(32, 4)(I, S, S).shape)
