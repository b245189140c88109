import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, embed_dim=256, num_heads=8, dropout=0.0):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.fc_out = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        N, L, E = x.shape
        Q = self.query(x).view(N, L, self.num_heads, self.head_dim).transpose(1, 2)
        K = self.key(x).view(N, L, self.num_heads, self.head_dim).transpose(1, 2)
        V = self.value(x).view(N, L, self.num_heads, self.head_dim).transpose(1, 2)

        energy = torch.matmul(Q, K.transpose(-1, -2)) / (self.head_dim**0.5)
        attention = F.softmax(energy, dim=-1)
        attention = self.dropout(energy)

        out = torch.matmul(attention, V)
        out = out.transpose(1, 2).contiguous().view(N, L, E)
        return self.fc_out(out)


if __name__ == "__main__":
    print(MultiHeadSelfAttention()(torch.randn(2, 20, 256)).shape)
