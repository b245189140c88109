import torch
import torch.nn as nn
from torch.nn import functional as F

# hyperparameters
batch_size = 4
block_size = 16
n_embd = 32
n_head = 4
head_size = n_embd
dropout = 0.0


class Head(nn.Module):
    """ one head of self-attention """

    def __init__(self, size):
        super().__init__()
        self.key = nn.Linear(n_embd, size, bias=False)
        self.query = nn.Linear(n_embd, size, bias=False)
        self.value = nn.Linear(n_embd, size, bias=False)
        self.register_buffer('tril', torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)    # (B, T, head_size)
        q = self.query(x)  # (B, T, head_size)
        wei = q @ k.transpose(-2, -1) * head_size ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float('-inf'))
        wei = F.softmax(wei, dim=-1)
        wei = self.dropout(wei)
        return wei @ self.value(x)


class MultiHeadAttention(nn.Module):
    """ multiple heads of self-attention in parallel """

    def __init__(self, num_heads, size):
        super().__init__()
        self.heads = nn.ModuleList([Head(size) for _ in range(num_heads)])
        self.proj = nn.Linear(num_heads * size, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.dropout(self.proj(out))


mha = MultiHeadAttention(n_head, n_embd // n_head)
print(mha(torch.randn(batch_size, block_size, n_embd)).shape)
