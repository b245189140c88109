import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, hidden_dim=32, heads=4, p=0.1):
        super().__init__()
        self.heads = heads
        self.dk = hidden_dim // heads
        self.fc_q = nn.Linear(hidden_dim, hidden_dim)
        self.fc_k = nn.Linear(hidden_dim, hidden_dim)
        self.fc_v = nn.Linear(hidden_dim, hidden_dim)
        self.fc_o = nn.Linear(hidden_dim, hidden_dim)
        self.drop = nn.Dropout(p)

    def forward(self, query, key, value, mask=None):
        """mask: float, 1.0 = real token, 0.0 = padding, shape (B, Lk)"""
        bs = query.shape[0]
        Q = self.fc_q(query).view(bs, -1, self.heads, self.dk).permute(0, 2, 1, 3)
        K = self.fc_k(key).view(bs, -1, self.heads, self.dk).permute(0, 2, 1, 3)
        V = self.fc_v(value).view(bs, -1, self.heads, self.dk).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / (self.dk ** 0.5)
        if mask is not None:
            energy = energy + (1.0 - mask[:, None, None, :]) * torch.finfo(energy.dtype).min
        attention = torch.softmax(energy, dim=-1)
        x = torch.matmul(self.drop(attention), V)
        x = x.permute(0, 2, 1, 3).contiguous().view(bs, -1, self.heads * self.dk)
        return self.fc_o(x), attention
