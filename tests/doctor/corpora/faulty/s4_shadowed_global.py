import torch
from torch import nn
from torch.nn import functional as F

# training setup
batch_size = 8
block_size = 64
n_embd = 48
n_head = 4
head_size = 32
dropout = 0.0


class Head(nn.Module):
    def __init__(self, n_embd, head_dim):
        super().__init__()
        self.key = nn.Linear(n_embd, head_dim, bias=False)
        self.query = nn.Linear(n_embd, head_dim, bias=False)
        self.value = nn.Linear(n_embd, head_dim, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size, dtype=torch.bool)))

    def forward(self, x):
        T = x.size(1)
        q, k, v = self.query(x), self.key(x), self.value(x)
        att = (q @ k.transpose(1, 2)) * head_size**-0.5
        att = att.masked_fill(~self.mask[:T, :T], float("-inf"))
        return F.softmax(att, dim=-1) @ v


class CausalAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.heads = nn.ModuleList(Head(n_embd, n_embd // n_head) for _ in range(n_head))
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


if __name__ == "__main__":
    attn = CausalAttention(n_embd, n_head)
    x = torch.randn(batch_size, block_size, n_embd)
    print(attn(x).shape)
