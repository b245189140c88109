import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, input_dim, dim_k, dim_v):
        super().__init__()
        self.dim_k = dim_k
        self.q = nn.Linear(input_dim, dim_k)
        self.k = nn.Linear(input_dim, dim_k)
        self.v = nn.Linear(input_dim, dim_v)

    def forward(self, x):
        # x: batch_size * seq_len * input_dim
        Q = self.q(x)
        K = self.k(x)
        V = self.v(x)

        atten = torch.bmm(Q, K.permute(0, 2, 1)) / math.sqrt(self.dim_k)
        atten = F.softmax(atten, dim=1)  # batch_size * seq_len * seq_len
        return torch.bmm(atten, V)


if __name__ == "__main__":
    X = torch.randn(4, 3, 2)
    print(SelfAttention(2, 4, 5)(X))
