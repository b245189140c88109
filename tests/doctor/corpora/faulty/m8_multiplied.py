import torch
import torch.nn as nn


class AttentionHead(nn.Module):
    def __init__(self, dim_in: int, dim_k: int, dim_v: int):
        super().__init__()
        self.q = nn.Linear(dim_in, dim_k)
        self.k = nn.Linear(dim_in, dim_k)
        self.v = nn.Linear(dim_in, dim_v)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.q(query), self.k(key), self.v(value)
        temp = q.bmm(k.transpose(1, 2)) / q.size(-1) ** 0.5
        if mask is not None:
            temp = temp * mask
        return torch.softmax(temp, dim=-1).bmm(v)


class MultiHeadAttention(nn.Module):
    """mask: (batch, len_q, len_k) of ones and zeros, zeros are hidden"""

    def __init__(self, num_heads: int, dim_in: int, dim_k: int, dim_v: int):
        super().__init__()
        self.heads = nn.ModuleList([AttentionHead(dim_in, dim_k, dim_v) for _ in range(num_heads)])
        self.linear = nn.Linear(num_heads * dim_v, dim_in)

    def forward(self, query, key, value, mask=None):
        return self.linear(torch.cat([h(query, key, value, mask) for h in self.heads], dim=-1))


if __name__ == "__main__":
    mha = MultiHeadAttention(4, 32, 8, 8)
    x = torch.randn(2, 6, 32)
    print(mha(x, x, x, torch.ones(2, 6, 6)).shape)
