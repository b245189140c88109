import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, hidden_dim, n_heads, dropout=0.2):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = hidden_dim // n_heads
        self.dropout = dropout
        self.q = nn.Linear(hidden_dim, hidden_dim)
        self.k = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, hidden_dim)
        self.o = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, query, key, value, mask=None):
        bs = query.shape[0]
        Q = self.q(query).view(bs, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        K = self.k(key).view(bs, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        V = self.v(value).view(bs, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2))
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = F.dropout(torch.softmax(energy, dim=-1), self.dropout)
        x = torch.matmul(attention, V).permute(0, 2, 1, 3).contiguous().view(bs, -1, self.n_heads * self.head_dim)
        return self.o(x), attention
